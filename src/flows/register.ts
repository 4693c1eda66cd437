import { assertAgentName } from "../domain/names.ts";
import { newSessionId, newToken } from "../effects/ids.ts";
import { appendEvent } from "../effects/logs.ts";
import { sessionLogFolder } from "../effects/paths.ts";
import { hashToken } from "../effects/tokens.ts";
import type { NewSession, Reservation, Session } from "../store/contract.ts";
import { journal, type Project } from "./project.ts";

export type Registration = Pick<NewSession, "name" | "capability"> &
  Partial<Omit<NewSession, "name" | "capability" | "id" | "tokenHash" | "startedAt" | "logFolder">>;

export interface Registered {
  session: Session;
  token: string;
}

/**
 * A new incarnation of a worker. The token is returned once and kept nowhere; its log begins with all that is needed to
 * restore the row, so that a live worker survives the loss of the ledger. `previous` is the incarnation it follows.
 */
export async function registerWorker(
  project: Project,
  registration: Registration,
  reservation?: Reservation,
  previous?: Session,
): Promise<Registered> {
  assertAgentName(registration.name);
  const token = newToken();
  const startedAt = project.clock.now();
  const session: NewSession = {
    ...registration,
    id: newSessionId(),
    tokenHash: hashToken(token),
    startedAt,
    logFolder: sessionLogFolder(registration.name, startedAt),
  };
  const registered =
    previous && reservation
      ? await project.ledger.succeedSession(previous, session, reservation)
      : await project.ledger.registerSession(session, reservation);
  const task = reservation?.newTask ?? reservation?.mirror;
  if (task) {
    journal(project, [
      { at: task.at, type: "task.created", taskId: task.id, data: { task, status: "queued" } },
    ]);
  }
  appendEvent(`${project.paths.logs}/${session.logFolder}/events.ndjson`, {
    at: startedAt,
    type: "session.registered",
    agent: session.name,
    sessionId: session.id,
    taskId: session.taskId ?? null,
    data: { session },
  });
  return { session: registered, token };
}
