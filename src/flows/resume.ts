import { OverseerError } from "../domain/errors.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { isLive } from "../domain/session.ts";
import { firstPrompt, heldPrompt, resumePrompt } from "../domain/spawn.ts";
import { hasConversation } from "../effects/claude.ts";
import { exists } from "../effects/files.ts";
import { addWorktreeAgain, commitOf } from "../effects/worktrees.ts";
import type { Session } from "../store/contract.ts";
import { isBelow } from "./caller.ts";
import { finishCompletion } from "./complete.ts";
import { expertiseFor, type Notice } from "./expertise.ts";
import { assertPrograms, awaitStart, closePane, launch, leavePane, sessionOf } from "./launch.ts";
import { selfMark, withLease } from "./lease.ts";
import { chooseDefinition, loadManifest } from "./manifest.ts";
import { copyIncluded, runSetup, writeInstructions } from "./prepare.ts";
import { type Caller, logSession, type Project, sessionEvent } from "./project.ts";
import { type Registered, registerWorker } from "./register.ts";
import { assertOurs, isBeingMade, isRunning } from "./running.ts";
import { handoffOf, readSpec } from "./spawn.ts";
import { workersTask } from "./tasks.ts";
import { recordUsage } from "./usage.ts";

/** Whether there is anything to resume: it has ended without being done, or its process is gone. */
async function isResumable(project: Project, session: Session): Promise<boolean> {
  if (session.worktree === null) return false;
  if (session.state === "completed") return (await whyHeld(project, session)) !== null;
  return !(isLive(session.state) && ((await isRunning(session)) || (await isBeingMade(project, session))));
}

/** What it handed in must not be merged as it is, and waits for it to be put right. */
async function whyHeld({ ledger }: Project, { id }: Session): Promise<string | null> {
  const held = (await ledger.mergeEntries({ sessionId: id })).find(({ status }) => status === "held");
  return held ? (held.error ?? "") : null;
}

/** Everybody that the caller may resume and that has to be. */
export async function resumable(project: Project, caller: Caller): Promise<Session[]> {
  const found: Session[] = [];
  for (const session of await project.ledger.currentSessions()) {
    // One that is done is resumed by its name alone: somebody has to tell it what to put right.
    if (session.capability === ORCHESTRATOR || session.state === "completed") continue;
    if (!(await isResumable(project, session))) continue;
    if (await isBelow(project, caller, session)) found.push(session);
  }
  return found;
}

/**
 * The next incarnation of a worker, in the same worktree and, where Claude Code has written it down, in the same
 * conversation. One that had said that it is done is finished instead: null.
 */
export async function resumeWorker(
  project: Project,
  session: Session,
  isWaiting: boolean,
  notice: Notice,
): Promise<Session | null> {
  await assertResumable(project, session);
  if (await project.ledger.isCompleting(session.id)) {
    if (await finishCompletion(project, session)) return null;
    throw new OverseerError("nothing_yet", `${session.name} is just being finished by another overseer`, {
      hint: "overseer status",
    });
  }
  const bin = await assertPrograms(project);
  const definition = chooseDefinition(await loadManifest(project), session.capability);
  const task = await workersTask(project, session.taskId ?? "");
  const given = await givenBefore(project, session);
  const { registered, isAnew } = await takeOver(project, session.id, given);
  const next = registered.session;
  try {
    await closePane(project, session);
    await recordUsage(project, session);
    if (isAnew) await outfit(project, next);
    const spec = given.spec !== null && exists(given.spec) ? readSpec(project, given.spec) : null;
    const handoff = await handoffOf(project, session);
    const expertise = await expertiseFor(project, next.worktree, notice);
    const brief = { task, definition, spec, base: given.base, handoff, expertise };
    await writeInstructions(project, next, brief);
    const why = await whyHeld(project, session);
    const isKnown = next.claudeSessionId !== null;
    const words = { ...next, taskId: task.id, title: task.title };
    await launch(project, registered, {
      bin,
      session: isKnown
        ? { kind: "resumed", id: next.claudeSessionId ?? "" }
        : { kind: "new", id: crypto.randomUUID() },
      model: session.model,
      prompt: why === null ? (isKnown ? resumePrompt(words) : firstPrompt(words)) : heldPrompt(words, why),
    });
    const started = isWaiting ? await awaitStart(project, next.id) : next;
    await project.ledger.endAction(next.id, "done", "resumed", project.clock.now());
    return started;
  } catch (error) {
    await giveUp(project, next, error);
    throw error;
  }
}

/** Its worktree is there and the next incarnation's, before anybody can remove it. */
async function takeOver(
  project: Project,
  sessionId: string,
  given: Given,
): Promise<{ registered: Registered; isAnew: boolean }> {
  return await withLease(project, "worktrees", async () => {
    const session = await sessionOf(project, sessionId);
    await assertResumable(project, session);
    const isAnew = await ensureWorktree(project, session);
    return { registered: await succeed(project, session, given), isAnew };
  });
}

async function assertResumable(project: Project, session: Session): Promise<void> {
  assertOurs(project, session);
  if (await isResumable(project, session)) return;
  const { name, state } = session;
  const refuse = (why: string, hint: string) => new OverseerError("still_alive", `${name} ${why}`, { hint });
  if (state === "completed") throw refuse("has completed its task", `overseer diff ${name}`);
  if (session.worktree === null)
    throw refuse("has no worktree any more", `overseer sling ${session.taskId ?? "TASK"} ...`);
  if (!(await isRunning(session))) throw refuse("is being started by another overseer", "overseer status");
  throw refuse(`is ${state}: its process lives`, `overseer peek ${name}, overseer stop ${name}`);
}

/** What the first worktree was given when it was made. */
async function outfit(project: Project, session: Session): Promise<void> {
  if (session.worktree === null) return;
  await copyIncluded(project, session.worktree);
  await runSetup(project, session, async (mark) => {
    await project.ledger.noteAction(session.id, { setup: mark }, project.clock.now());
  });
}

/** Somebody may have removed the folder; the branch still has the work. Returns whether it was made anew. */
async function ensureWorktree(project: Project, { name, worktree, branch }: Session): Promise<boolean> {
  const { git, paths } = project;
  if (worktree === null || exists(worktree)) return false;
  if (branch === null || (await commitOf(git, paths.root, `refs/heads/${branch}`)) === null) {
    throw new OverseerError("worktree_left", `${name}'s worktree and branch are gone`, {
      hint: `overseer worktree clean ${name}, then sling its task again`,
    });
  }
  await addWorktreeAgain(git, paths.root, worktree, branch);
  return true;
}

async function succeed(project: Project, session: Session, given: Given): Promise<Registered> {
  const { config } = await project.config();
  const { name, capability, taskId, parent, depth, worktree, branch, baseCommit, model, fileScope } = session;
  const same = { name, capability, taskId, parent, depth, worktree, branch, baseCommit, model, fileScope };
  const { claudeSessionId, transcriptPath } = session;
  const conversation = hasConversation(transcriptPath) ? { claudeSessionId, transcriptPath } : {};
  const owner = await selfMark();
  const reservation = {
    owner,
    maxConcurrent: config.agents.maxConcurrent,
    newTask: null,
    mirror: null,
    notes: { ...given },
  };
  return await registerWorker(project, { ...same, ...conversation }, reservation, session);
}

/** What its first incarnation was given beside the task. */
interface Given {
  spec: string | null;
  base: string;
}

async function givenBefore({ ledger }: Project, session: Session): Promise<Given> {
  const { spec, base } = (await ledger.findAction(session.id))?.payload ?? {};
  return {
    spec: typeof spec === "string" ? spec : null,
    base: typeof base === "string" ? base : (session.baseCommit ?? ""),
  };
}

/** The worktree stays: it had work in it before. */
async function giveUp(project: Project, { id }: Session, error: unknown): Promise<void> {
  const session = await sessionOf(project, id);
  await leavePane(project, session);
  const at = project.clock.now();
  const why = error instanceof Error ? error.message : String(error);
  const event = sessionEvent(session, "session.spawn_failed", at, { why });
  await project.ledger.endSession(
    session.id,
    { state: "failed", cause: why.split("\n")[0] ?? "", at },
    event,
  );
  await project.ledger.endAction(session.id, "failed", why, at);
  logSession(project, session, event);
}
