import { messageOf } from "../domain/errors.ts";
import { completionId, hasBegun, isLive } from "../domain/session.ts";
import { hasReached } from "../domain/spawn.ts";
import { leftoversOf, remove } from "../effects/files.ts";
import { logError } from "../effects/logs.ts";
import { agentFiles } from "../effects/paths.ts";
import { endTree } from "../effects/process-tree.ts";
import { isAlive } from "../effects/processes.ts";
import type { Action, Session } from "../store/contract.ts";
import { release } from "./clean.ts";
import { finishCompletion } from "./complete.ts";
import { leavePane, markOf, paneOf, tmuxSessionOf } from "./launch.ts";
import { selfMark } from "./lease.ts";
import { discard, examineLeavings, isSafe, takeBack } from "./leavings.ts";
import { journal, logSession, type Project, sessionEvent } from "./project.ts";
import { isLost, isRunning, otherHome } from "./running.ts";
import { carryOutStop } from "./stop.ts";
import { tellOrLog } from "./tracker.ts";
import { recordEnded } from "./usage.ts";

/** What a process that was killed, or a worker that died, has left behind. */
export type Trouble =
  /** A sling that is gone in the middle of its work. */
  | { kind: "half-made"; session: Session; action: Action }
  /** Launched, and its SessionStart hook never came. */
  | { kind: "never started"; session: Session; action: Action }
  /** Its process is gone, and no hook has said so. */
  | { kind: "died"; session: Session }
  /** Whoever was to stop it is gone in the middle of that. */
  | { kind: "half-stopped"; session: Session; action: Action }
  /** It said that it is done, and nobody has carried that out. */
  | { kind: "unfinished"; session: Session };

/** What was done about a trouble, or why that could not be. "left alone": it is none any more, or another is at it. */
export type Repair = { trouble: Trouble } & ({ done: Deed } | { problem: string });
export type Deed = "undone" | "taken over" | "recorded" | "stopped" | "finished" | "left alone";

/** Reads only. */
export async function findTroubles(project: Project): Promise<Trouble[]> {
  return [
    ...(await brokenSpawns(project)),
    ...(await brokenStops(project)),
    ...(await lostWorkers(project)),
    ...(await unfinishedOnes(project)),
  ];
}

/** All of it, or only these kinds: workers that died are what resume is for. */
export async function repairWorkers(project: Project, kinds?: readonly Trouble["kind"][]): Promise<Repair[]> {
  const found = await findTroubles(project);
  const troubles = kinds ? found.filter(({ kind }) => kinds.includes(kind)) : found;
  const repairs: Repair[] = [];
  for (const trouble of troubles) repairs.push(await orLog(project, trouble));
  await recordEnded(project);
  return repairs;
}

/** One that cannot be helped must not keep the others, or a new worker, waiting. */
async function orLog(project: Project, trouble: Trouble): Promise<Repair> {
  try {
    return { trouble, done: await repairOne(project, trouble) };
  } catch (error) {
    const { kind, session } = trouble;
    logError(project.paths, project.clock.now(), `repairing ${session.name} (${kind})`, error);
    return { trouble, problem: messageOf(error) };
  }
}

async function brokenSpawns(project: Project): Promise<Trouble[]> {
  const found: Trouble[] = [];
  for (const action of await project.ledger.openActions("spawn")) {
    if (action.owner !== null && (await isAlive(action.owner))) continue;
    const session = (await project.ledger.findSession({ sessionId: action.id }))?.session;
    if (session && isOurs(project, session)) found.push({ kind: "half-made", session, action });
  }
  const { config } = await project.config();
  const workers = await project.ledger.liveWorkers(-1);
  const late = workers.filter(
    ({ state, stateAt }) => state === "booting" && project.clock.now() - stateAt > config.agents.bootTimeout,
  );
  for (const session of late) {
    const action = await project.ledger.findAction(session.id);
    if (action?.state === "done" && isOurs(project, session))
      found.push({ kind: "never started", session, action });
  }
  return found;
}

function isOurs(project: Project, { worktree }: Session): boolean {
  return otherHome(project, worktree) === null;
}

async function brokenStops(project: Project): Promise<Trouble[]> {
  const found: Trouble[] = [];
  for (const action of await project.ledger.openActions("stop")) {
    if (action.owner !== null && (await isAlive(action.owner))) continue;
    const sessionId = String(action.payload.sessionId);
    const session = (await project.ledger.findSession({ sessionId }))?.session;
    if (session && isOurs(project, session)) found.push({ kind: "half-stopped", session, action });
  }
  return found;
}

async function lostWorkers(project: Project): Promise<Trouble[]> {
  const found: Trouble[] = [];
  for (const session of await project.ledger.liveWorkers(-1)) {
    const isDead = session.state !== "booting" && (await isLost(session));
    if (isDead && !(await project.ledger.isCompleting(session.id))) found.push({ kind: "died", session });
  }
  return found;
}

/** Announced and then neither begun nor ended, by a session that will not come to its Stop any more. */
async function unfinishedOnes(project: Project): Promise<Trouble[]> {
  const found: Trouble[] = [];
  for (const action of await project.ledger.openActions("complete")) {
    const session = (
      await project.ledger.findSession({ sessionId: action.id.slice(completionId("").length) })
    )?.session;
    const isAtIt = action.owner !== null && (await isAlive(action.owner));
    if (!session || isAtIt || !isOurs(project, session)) continue;
    const isStuck = session.reason === "rate_limit" || session.reason === "context_full";
    const isWorking = (await isRunning(session)) && session.state !== "idle" && !isStuck;
    if (action.state === "running" || !isWorking) found.push({ kind: "unfinished", session });
  }
  return found;
}

async function repairOne(project: Project, trouble: Trouble): Promise<Deed> {
  const { session } = trouble;
  switch (trouble.kind) {
    case "half-made":
      return await repairSpawn(project, session, trouble.action);
    case "never started":
      return await giveUpOn(project, session);
    case "died":
      return (await recordDeath(project, session)) ? "recorded" : "left alone";
    case "half-stopped":
      await carryOutStop(project, session.id, trouble.action);
      return "stopped";
    case "unfinished":
      return (await finishCompletion(project, session)) ? "finished" : "left alone";
  }
}

/** By now it may have started after all, or somebody else is at it. */
async function giveUpOn(project: Project, session: Session): Promise<Deed> {
  const at = project.clock.now();
  const why = new Error("it was not ready in time");
  const event = sessionEvent(session, "session.spawn_failed", at, { why: why.message });
  const end = { state: "failed" as const, cause: why.message, at, from: "booting" as const };
  if (!(await project.ledger.endSession(session.id, end, event))) return "left alone";
  await takeBackSpawn(project, session.id, why, "failed");
  return "undone";
}

/** One that got as far as a living Claude Code is kept, unless it was stopped before; anything less is undone. */
async function repairSpawn(project: Project, session: Session, action: Action): Promise<Deed> {
  const { ledger, clock } = project;
  if (!(await ledger.takeAction(action.id, action.owner, await selfMark(), clock.now()))) return "left alone";
  const isStopped = await wasStopped(project, session);
  const adopted = session.mark === null && !isStopped ? await adoptPane(project, session) : session;
  const isUp = await isRunning(adopted);
  if (!isStopped && (isUp || adopted.state !== "booting")) {
    await ledger.endAction(action.id, "done", "adopted", clock.now());
    return "taken over";
  }
  const why = new Error(`the sling was killed (at ${String(action.payload.step)})`);
  await takeBackSpawn(project, session.id, why, "unknown");
  return "undone";
}

/** Before it had begun, and nobody has gone on in its place since. */
async function wasStopped({ ledger }: Project, { id }: Session): Promise<boolean> {
  const found = await ledger.findSession({ sessionId: id });
  return found?.isCurrent === true && !isLive(found.session.state) && !hasBegun(found.session);
}

/** tmux had opened the pane, and whoever asked for it was killed before that was recorded. */
async function adoptPane(project: Project, session: Session): Promise<Session> {
  const pane = await paneOf(project, session);
  const mark = await markOf(project, session);
  if (!pane || mark === null) return session;
  const launched = {
    paneId: pane.id,
    pid: pane.pid,
    mark,
    tmuxSession: tmuxSessionOf(session.name),
  };
  const event = sessionEvent(session, "session.launched", project.clock.now(), {
    pane: pane.id,
    pid: pane.pid,
  });
  await project.ledger.recordLaunch(
    session.id,
    { ...launched, claudeSessionId: session.claudeSessionId },
    event,
  );
  logSession(project, session, event);
  return { ...session, ...launched };
}

async function recordDeath(project: Project, session: Session): Promise<boolean> {
  const at = project.clock.now();
  const event = sessionEvent(session, "session.died", at, { was: session.state, pid: session.pid });
  const end = { state: "zombie" as const, cause: "its process is gone", at };
  const isRecorded = await project.ledger.endSession(session.id, end, event);
  if (isRecorded) logSession(project, session, event);
  return isRecorded;
}

/** git removes what it has half made, and its locks, when it is asked to end. */
const GIT_GRACE_MS = 2_000;

/** A part that cannot be taken back now is logged, and left to the next repair. */
export async function undoSpawn(project: Project, session: Session, why: unknown): Promise<void> {
  try {
    await takeBackSpawn(project, session.id, why, "failed");
  } catch (error) {
    logError(project.paths, project.clock.now(), `undoing the spawn of ${session.name}`, error);
  }
}

/**
 * Takes back whatever a spawn has made: pane, claim, worktree, branch, files. What the worker may have done meanwhile
 * is saved first.
 */
async function takeBackSpawn(
  project: Project,
  sessionId: string,
  why: unknown,
  verdict: "failed" | "unknown",
): Promise<void> {
  const session = (await project.ledger.findSession({ sessionId }))?.session;
  const action = await project.ledger.findAction(sessionId);
  if (!session || !action) return;
  if (typeof action.payload.git === "string") await endTree(action.payload.git, GIT_GRACE_MS);
  if (typeof action.payload.setup === "string") await endTree(action.payload.setup, 0);
  await leavePane(project, session);
  await giveBackTask(project, session, action);
  await finishClearing(project, action);
  // A resume that was killed has a worktree with work in it, and never got so far as to note one.
  const isOurs =
    hasReached(action.payload.step, "worktree") || (await examineLeavings(project, session)) === null;
  if (isOurs) await removeMade(project, session, hasReached(action.payload.step, "launch"));
  await recordFailure(project, session, messageOf(why), verdict);
}

async function giveBackTask(project: Project, session: Session, action: Action): Promise<void> {
  const isNew = action.payload.isNewTask === true;
  if (session.taskId === null || !(isNew || hasReached(action.payload.step, "claim"))) return;
  const at = project.clock.now();
  const reason = isNew ? `${session.name} could not be started` : null;
  const event = sessionEvent(session, "task.released", at, { cancelled: isNew });
  await project.ledger.unclaimTask(session.taskId, isNew ? "cancelled" : "queued", reason, at, event);
  journal(project, [event]);
  const { taskId } = session;
  await tellOrLog(project, `giving ${taskId} back`, (tracker) => tracker.tellReleased(taskId, reason));
}

/** A sling clears its place before it makes anything there: a removal that it had begun is brought to its end. */
async function finishClearing(project: Project, { payload }: Action): Promise<void> {
  if (typeof payload.clears !== "string" || hasReached(payload.step, "worktree")) return;
  const previous = (await project.ledger.findSession({ sessionId: payload.clears }))?.session;
  const leavings = previous && (await examineLeavings(project, previous));
  if (!previous || leavings?.hasWorktree || (leavings && !isSafe(leavings))) return;
  if (leavings) await discard(project, leavings, previous);
  if (previous.worktree !== null) await release(project, previous, false, null);
}

/** Before its launch, all that stands in the worktree is what was prepared there. */
async function removeMade(project: Project, session: Session, hasLaunched: boolean): Promise<void> {
  const { settings, systemPrompt, guard, excludes } = agentFiles(project.paths, session.name);
  const leavings = hasLaunched ? await examineLeavings(project, session) : null;
  if (!hasLaunched) await takeBack(project, session);
  else if (leavings) await discard(project, leavings, session);
  for (const file of [settings, systemPrompt, guard, excludes]) {
    for (const { path } of leftoversOf(file)) remove(path);
    remove(file);
  }
  const event = sessionEvent(session, "worktree.removed", project.clock.now(), {
    worktree: session.worktree,
  });
  await project.ledger.releaseWorktree(session.id, "undone", event);
}

async function recordFailure(
  project: Project,
  session: Session,
  why: string,
  verdict: "failed" | "unknown",
): Promise<void> {
  const at = project.clock.now();
  const [cause = "it could not be started"] = why.split("\n");
  const event = sessionEvent(session, "session.spawn_failed", at, { why });
  await project.ledger.endSession(session.id, { state: "failed", cause, at }, event);
  await project.ledger.endAction(session.id, verdict, why, at);
  logSession(project, session, event);
}
