import { OverseerError } from "../domain/errors.ts";
import { isAgentName, ORCHESTRATOR } from "../domain/names.ts";
import { isLive, type SessionState } from "../domain/session.ts";
import { isOpen } from "../domain/task.ts";
import { listFolder, settledPath } from "../effects/files.ts";
import { listWorktrees } from "../effects/worktrees.ts";
import type { Session } from "../store/contract.ts";
import { closePane } from "./launch.ts";
import {
  bringBackCommand,
  discard,
  examineLeavings,
  isSafe,
  type Leavings,
  nobody,
  refusal,
  worktreePath,
} from "./leavings.ts";
import { unknownAgent } from "./prime.ts";
import { journal, type Project, sessionEvent, tell } from "./project.ts";
import { assertOurs, isRunning } from "./running.ts";
import { markDone } from "./tasks.ts";
import { tellOrLog } from "./tracker.ts";
import { recordUsage } from "./usage.ts";

export interface WorktreeLine extends Leavings {
  state: SessionState | null;
  taskId: string | null;
}

/** Every worktree or branch that a worker has, with what would be lost. Changes nothing. */
export async function listLeavings(project: Project): Promise<WorktreeLine[]> {
  const lines: WorktreeLine[] = [];
  for (const name of await namesWithWork(project)) {
    const session = await project.ledger.currentSession(name);
    const leavings = await examineLeavings(project, knownOf(name, session));
    if (leavings) lines.push({ ...leavings, state: session?.state ?? null, taskId: session?.taskId ?? null });
  }
  return lines;
}

function knownOf(name: string, session: Session | null) {
  return session ?? nobody(name);
}

/** Those of the ledger, and folders, or records of git's, that the ledger knows nothing of. */
async function namesWithWork(project: Project): Promise<string[]> {
  const sessions = await project.ledger.currentSessions();
  const names = sessions.filter(({ capability }) => capability !== ORCHESTRATOR).map(({ name }) => name);
  return [...new Set([...names, ...(await placesTaken(project))])];
}

/** In a folder that is not ours alone, what is not a worktree on a branch of ours is none of our business. */
async function placesTaken(project: Project): Promise<string[]> {
  const { git, paths } = project;
  const folder = (await worktreePath(project, "x")).slice(0, -"/x".length);
  const inside = folder === settledPath(paths.worktrees) ? listFolder(folder) : [];
  const worktrees = await listWorktrees(git, paths.root);
  const recorded = worktrees
    .filter(({ path, branch }) => path.startsWith(`${folder}/`) && branch?.startsWith("overseer/"))
    .map(({ path }) => path.slice(folder.length + 1));
  return [...inside, ...recorded].filter(isAgentName);
}

export interface CleanRequest {
  name: string | undefined;
  isCompletedOnly: boolean;
  isForced: boolean;
}

export interface Cleaned {
  name: string;
  branch: string | null;
  rescueRef: string | null;
  /** Brings back what was saved. */
  bringBack: string | null;
}

export interface CleanResult {
  removed: Cleaned[];
  refused: { name: string; why: OverseerError }[];
  /** Those that live, where nobody was named. */
  live: string[];
}

/** Removes what is proven to have landed; the rest is refused, or, when forced, saved first. */
export async function cleanWorktrees(project: Project, request: CleanRequest): Promise<CleanResult> {
  const result: CleanResult = { removed: [], refused: [], live: [] };
  for (const name of await targets(project, request)) {
    try {
      const cleaned = await cleanOne(project, name, request.isForced);
      if (cleaned) result.removed.push(cleaned);
      else if (request.name !== undefined) throw nothingLeft(name);
    } catch (error) {
      if (!(error instanceof OverseerError) || request.name !== undefined) throw error;
      if (error.code === "still_alive") result.live.push(name);
      else result.refused.push({ name, why: error });
    }
  }
  return result;
}

async function targets(project: Project, request: CleanRequest): Promise<string[]> {
  const names = await namesWithWork(project);
  if (request.name === undefined && !request.isCompletedOnly) return names;
  if (request.name === undefined) {
    const sessions = await project.ledger.currentSessions();
    return sessions.filter(({ state }) => state === "completed").map(({ name }) => name);
  }
  if (names.includes(request.name)) return [request.name];
  throw await unknownAgent(project, request.name);
}

function nothingLeft(name: string): OverseerError {
  return new OverseerError("worktree_left", `${name} has neither a worktree nor a branch`, {
    hint: "overseer worktree list",
  });
}

async function cleanOne(project: Project, name: string, isForced: boolean): Promise<Cleaned | null> {
  const session = await project.ledger.currentSession(name);
  if (session) await assertEnded(project, session);
  const leavings = await examineLeavings(project, knownOf(name, session));
  if (!leavings) {
    if (!session || session.worktree === null) return null;
    // Somebody was killed after the last of it was removed, and before that was recorded.
    await release(project, session, true, null);
    return { name, branch: null, rescueRef: null, bringBack: null };
  }
  const isGivenUp = !isSafe(leavings);
  if (isGivenUp && !isForced) throw refusal(leavings, session);
  const { rescueRef, branch } = await discard(project, leavings, knownOf(name, session), {
    mayStill: () => assertSame(project, name, session),
    record: async (removed) => {
      if (session) await release(project, session, isGivenUp, removed.rescueRef);
      else await tell(project, [orphanRemoved(project, name, removed.rescueRef)]);
    },
  });
  return { name, branch, rescueRef, bringBack: rescueRef && bringBackCommand(project, rescueRef) };
}

async function assertEnded(project: Project, session: Session): Promise<void> {
  const { name, state } = session;
  if ((await isRunning(session)) || state === "booting") {
    assertOurs(project, session);
    throw new OverseerError("still_alive", `${name} is still ${state}`, { hint: `overseer stop ${name}` });
  }
}

/** Somebody may have resumed or slung that name while this one waited for its turn. */
async function assertSame(project: Project, name: string, seen: Session | null): Promise<void> {
  const now = await project.ledger.currentSession(name);
  if (now?.id !== seen?.id) {
    throw new OverseerError("changed_meanwhile", `${name} has come back meanwhile`, {
      hint: "overseer status",
    });
  }
  if (now) await assertEnded(project, now);
}

function orphanRemoved(project: Project, name: string, rescueRef: string | null) {
  const at = project.clock.now();
  return { at, type: "worktree.removed" as const, agent: name, data: { rescueRef } };
}

/**
 * Its files are free again, and a task that nobody has finished is ready again. Nothing of that touches a later
 * incarnation of the same name, which may have made a new worktree in that place.
 */
export async function release(
  project: Project,
  session: Session,
  isGivenUp: boolean,
  rescueRef: string | null,
): Promise<void> {
  const { ledger, clock } = project;
  await closePane(project, session);
  await recordUsage(project, session);
  const at = clock.now();
  if (isLive(session.state)) {
    const died = sessionEvent(session, "session.died", at, { was: session.state });
    await ledger.endSession(session.id, { state: "zombie", cause: "its process is gone", at }, died);
  }
  const event = sessionEvent(session, "worktree.removed", at, { worktree: session.worktree, rescueRef });
  await ledger.releaseWorktree(session.id, isGivenUp ? "aborted" : "merged", event);
  journal(project, [event]);
  if (session.taskId === null) return;
  if (session.state === "completed" && !isGivenUp) return await closeLanded(project, session);
  const [latest] = await ledger.pastSessions({ taskId: session.taskId });
  if (latest?.id !== session.id) return; // somebody else has it now
  const released = sessionEvent(session, "task.released", at, { cancelled: false });
  await ledger.unclaimTask(session.taskId, "queued", null, at, released);
  journal(project, [released]);
  const { taskId } = session;
  await tellOrLog(project, `giving ${taskId} back`, (tracker) => tracker.tellReleased(taskId, null));
}

/** Said to be done by its worker, and landed by hand. */
async function closeLanded(project: Project, { name, taskId }: Session): Promise<void> {
  const task = taskId === null ? null : await project.ledger.findTask(taskId);
  if (task && isOpen(task.status)) await markDone(project, task.id, "its branch has landed", name);
}
