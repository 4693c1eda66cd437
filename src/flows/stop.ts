import { OverseerError } from "../domain/errors.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { isLive } from "../domain/session.ts";
import type { Session } from "../store/contract.ts";
import { assertMayAct, isBelow } from "./caller.ts";
import { leavePane } from "./complete.ts";
import { paneOf } from "./launch.ts";
import { unknownAgent } from "./prime.ts";
import { type Caller, logSession, type Project, sessionEvent } from "./project.ts";
import { isRunning } from "./running.ts";

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

/** Ends the process that was recorded and what it started; worktree, branch and task stay as they are. */
export async function stopWorker(project: Project, caller: Caller, session: Session): Promise<void> {
  if (!isLive(session.state)) {
    // What a stop that was killed has not come to.
    if ((await isRunning(session)) || (await paneOf(project, session)))
      return await leavePane(project, session);
    throw new OverseerError("ended_otherwise", `${session.name} is ${session.state} already`, {
      hint: `overseer resume ${session.name}, or overseer worktree clean ${session.name}`,
    });
  }
  await leavePane(project, session);
  const at = project.clock.now();
  const event = sessionEvent(session, "session.stopped", at, { by: caller.name, was: session.state });
  const end = { state: "stopped" as const, cause: `stopped by ${caller.name}`, at };
  if (await project.ledger.endSession(session.id, end, event)) logSession(project, session, event);
}
