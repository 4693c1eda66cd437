import { OverseerError } from "../domain/errors.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { hasBegun, isLive, stopId } from "../domain/session.ts";
import { endAll, treeOf } from "../effects/process-tree.ts";
import type { Action, Session } from "../store/contract.ts";
import { assertMayAct, isBelow } from "./caller.ts";
import { closePane, GRACE_MS, leavePane, markOf, paneOf, sessionOf } from "./launch.ts";
import { selfMark } from "./lease.ts";
import { unknownAgent } from "./prime.ts";
import { type Caller, logSession, type Project, sessionEvent } from "./project.ts";
import { assertOurs, isBeingMade, isRunning, otherHome } from "./running.ts";
import { recordUsage } from "./usage.ts";

/** The newest incarnation of a name, which the caller may act on. */
export async function workerOf(project: Project, caller: Caller, name: string): Promise<Session> {
  const session = await currentWorker(project, name);
  await assertMayAct(project, caller, session);
  return session;
}

export async function currentWorker(project: Project, name: string): Promise<Session> {
  const session = await project.ledger.currentSession(name);
  if (session && session.capability !== ORCHESTRATOR) return session;
  throw await unknownAgent(project, name);
}

/** Those of the live workers that the caller may act on. */
export async function liveBelow(project: Project, caller: Caller): Promise<Session[]> {
  const workers = await project.ledger.liveWorkers(-1);
  const isTheirs = await Promise.all(workers.map((worker) => isBelow(project, caller, worker)));
  return workers.filter((_, at) => isTheirs[at]);
}

/** The same without those of a repository that this one is a copy of; refused where there are only such. */
export async function stoppable(project: Project, caller: Caller): Promise<Session[]> {
  const live = await liveBelow(project, caller);
  const ours = live.filter(({ worktree }) => otherHome(project, worktree) === null);
  if (ours.length === 0) for (const session of live) assertOurs(project, session);
  return ours;
}

export interface Stopped {
  name: string;
  /** Whoever was just starting it takes back what was made for that; other worktrees stay. */
  worktree: "kept" | "taken back" | "being taken back";
}

/** Ends the process that was recorded and what it started; branch and task stay as they are. */
export async function stopWorker(project: Project, caller: Caller, session: Session): Promise<Stopped> {
  assertOurs(project, session);
  const { name, state } = session;
  if (!isLive(state) && !(await hasLeftovers(project, session))) {
    throw new OverseerError("ended_otherwise", `${name} is ${state} already`, {
      hint: afterItsEnd(session),
    });
  }
  const isBeingStarted = (await project.ledger.findAction(session.id))?.state === "running";
  await planStop(project, caller, session);
  for (const action of await openStops(project, session)) await carryOutStop(project, session.id, action);
  return { name, worktree: isBeingStarted ? await fateOf(project, session) : "kept" };
}

/** Only what is not refused: whoever has completed does not go on, and work that has not landed is not cleaned. */
function afterItsEnd({ name, state, worktree }: Session): string {
  if (worktree === null) return `overseer logs ${name}`;
  const look = `overseer diff ${name} shows what it did`;
  return state === "completed" ? look : `overseer resume ${name} lets it go on; ${look}`;
}

/** What a stop that was killed has not come to. */
async function hasLeftovers(project: Project, session: Session): Promise<boolean> {
  if ((await openStops(project, session)).length > 0) return true;
  return (await isRunning(session)) || (await paneOf(project, session)) !== null;
}

async function openStops({ ledger }: Project, session: Session): Promise<Action[]> {
  return (await ledger.openActions("stop")).filter(({ payload }) => payload.sessionId === session.id);
}

/** What is to be ended is noted first: once its parent has gone, nothing tells whose process it was. */
async function planStop(project: Project, caller: Caller, session: Session): Promise<void> {
  const tree = await processesOf(project, session);
  const payload = { sessionId: session.id, by: caller.name, was: session.state, tree };
  const event = sessionEvent(session, "session.stopping", project.clock.now(), { by: caller.name });
  const action = { id: stopId(session), kind: "stop", subject: session.name, payload };
  await project.ledger.planAction(action, event);
}

/** Everything in it can be done twice, also at the same time: killed anywhere, the next one does it again. */
export async function carryOutStop(project: Project, sessionId: string, action: Action): Promise<void> {
  const { ledger, clock } = project;
  await ledger.takeAction(action.id, action.owner, await selfMark(), clock.now());
  const session = (await ledger.findSession({ sessionId }))?.session;
  if (session) await end(project, session, action);
  await ledger.endAction(action.id, "done", "stopped", clock.now());
}

async function end(project: Project, session: Session, { payload }: Action): Promise<void> {
  const { ledger, clock } = project;
  const noted = Array.isArray(payload.tree) ? payload.tree.map(String) : [];
  await endAll([...new Set([...(await processesOf(project, session)), ...noted])], GRACE_MS);
  await closePane(project, session);
  const at = clock.now();
  const event = sessionEvent(session, "session.stopped", at, { by: payload.by, was: payload.was });
  const cause = `stopped by ${String(payload.by)}`;
  if (await ledger.endSession(session.id, { state: "stopped", cause, at }, event))
    logSession(project, session, event);
  await recordUsage(project, session);
  // A launch that was recorded before it was called stopped, and after it was looked at here; no other can follow.
  const launched = (await ledger.findSession({ sessionId: session.id }))?.session;
  if (launched && launched.paneId !== session.paneId) await leavePane(project, launched);
}

async function processesOf(project: Project, session: Session): Promise<string[]> {
  const mark = await markOf(project, session);
  return mark === null ? [] : await treeOf(mark);
}

const LOOK_AGAIN_MS = 20;
const PATIENCE_MS = 10_000;

/** Whoever is just starting it sees at its next step that it was stopped; killed before that, it is left to the next. */
async function fateOf(project: Project, { id }: Session): Promise<Stopped["worktree"]> {
  const deadline = performance.now() + PATIENCE_MS;
  while (performance.now() < deadline && (await isBeingMade(project, { id }))) await Bun.sleep(LOOK_AGAIN_MS);
  const session = await sessionOf(project, id);
  const isHalfMade = (await project.ledger.findAction(id))?.state === "running";
  if (isHalfMade && ((await isBeingMade(project, session)) || !hasBegun(session))) return "being taken back";
  return session.worktree === null ? "taken back" : "kept";
}
