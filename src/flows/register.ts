import { assertAgentName } from "../domain/names.ts";
import { newSessionId, newToken } from "../effects/ids.ts";
import { appendEvent } from "../effects/logs.ts";
import { sessionLogFolder } from "../effects/paths.ts";
import { hashToken } from "../effects/tokens.ts";
import type { NewSession, Session } from "../store/contract.ts";
import type { Project } from "./project.ts";

export type Registration = Pick<NewSession, "name" | "capability"> &
  Partial<Pick<NewSession, "taskId" | "parent" | "depth" | "worktree" | "branch" | "fileScope">>;

/**
 * A new incarnation of a worker. The token is returned once and kept nowhere; its log begins with all that is needed to
 * restore the row, so that a live worker survives the loss of the ledger.
 */
export async function registerWorker(
  project: Project,
  registration: Registration,
): Promise<{ session: Session; token: string }> {
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
  const registered = await project.ledger.registerSession(session);
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
