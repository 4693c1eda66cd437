import type { EventType, NewEvent } from "../domain/event.ts";
import { redactTokens } from "../domain/redact.ts";
import type { Clock } from "../effects/clock.ts";
import type { Git } from "../effects/git.ts";
import { appendEvent, appendLine, logError } from "../effects/logs.ts";
import type { Paths } from "../effects/paths.ts";
import type { Tmux } from "../effects/tmux.ts";
import type { Ledger, Session } from "../store/contract.ts";
import type { MailStore } from "../store/mail-contract.ts";
import type { LoadedConfig } from "./config.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** A repository in which overseer is at home, as the flows see it. What is not asked for is not opened. */
export interface Project {
  readonly paths: Paths;
  readonly clock: Clock;
  readonly git: Git;
  readonly env: Environment;
  readonly cwd: string;
  readonly ledger: Ledger;
  readonly mail: MailStore;
  tmux(): Promise<Tmux>;
  config(): Promise<LoadedConfig>;
}

/** Who runs a command. */
export type Caller =
  | { kind: "worker"; name: string; session: Session }
  | { kind: "orchestrator"; name: "orchestrator" }
  | { kind: "human"; name: "human" };

/**
 * Tells what has already happened, into the journal and into the ledger. It cannot be taken back any more, so a ledger
 * that is locked or damaged at this moment is no reason to say that it failed.
 */
export async function tell(project: Project, events: readonly NewEvent[], copies = events): Promise<void> {
  journal(project, copies);
  try {
    await project.ledger.appendEvents(events);
  } catch (error) {
    logError(project.paths, project.clock.now(), "recording events", error);
  }
}

export function journal(project: Project, events: readonly NewEvent[]): void {
  for (const event of events) appendEvent(project.paths.journal, event);
}

/** What happened to a worker: built once, for the ledger's transaction and for the session's own log. */
export function sessionEvent(
  session: Pick<Session, "id" | "name" | "taskId">,
  type: EventType,
  at: number,
  data: Readonly<Record<string, unknown>> = {},
): NewEvent {
  return { at, type, agent: session.name, sessionId: session.id, taskId: session.taskId, data };
}

export function logSession(project: Project, session: Pick<Session, "logFolder">, event: NewEvent): void {
  const folder = `${project.paths.logs}/${session.logFolder}`;
  appendEvent(`${folder}/events.ndjson`, event);
  const about = Object.entries(event.data ?? {}).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  const what = event.type.slice(event.type.indexOf(".") + 1);
  appendLine(`${folder}/session.log`, [new Date(event.at).toISOString(), what, ...about].join(" "));
}

/** Takes tokens out of what people and agents write, unless the project has switched that off. */
export async function cleaner(project: Project): Promise<(text: string) => string> {
  const { config } = await project.config();
  return config.logging.redactSecrets ? redactTokens : (text) => text;
}
