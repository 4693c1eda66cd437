import type { NewEvent } from "../domain/event.ts";
import type { Meaning } from "../domain/hook-event.ts";
import { headline } from "../domain/tool-call.ts";
import { appendEvent, appendLine } from "../effects/logs.ts";
import type { Paths } from "../effects/paths.ts";
import type { Session } from "../store/contract.ts";
import type { Delivered } from "./deliver.ts";

/** The session's four logs: for people, for machines, the tools, the errors. */
export function writeSessionLogs(paths: Paths, session: Session, at: number, meaning: Meaning): void {
  const folder = `${paths.logs}/${session.logFolder}`;
  const event: NewEvent = {
    at,
    type: meaning.type,
    agent: session.name,
    sessionId: session.id,
    taskId: session.taskId,
    data: meaning.data,
  };
  const time = new Date(at).toISOString();
  const line = `${time} ${forPeople(meaning)}`;
  appendEvent(`${folder}/events.ndjson`, event);
  appendLine(`${folder}/session.log`, line);
  if (typeof meaning.data.error === "string") appendLine(`${folder}/errors.log`, line);
  if (!meaning.call) return;
  const phase = meaning.type.slice("session.tool_".length);
  appendLine(`${folder}/tools.ndjson`, JSON.stringify({ at: time, phase, ...meaning.call }));
}

/** What happened to the mail of one recipient, for the ledger and for the journal. */
export function mailEvents(recipient: string, at: number, delivered: Omit<Delivered, "isLeft">): NewEvent[] {
  const events: NewEvent[] = [];
  const tell = (type: NewEvent["type"], ids: string[]) => {
    if (ids.length > 0) events.push({ at, type, agent: recipient, data: { ids } });
  };
  tell("mail.read", delivered.acknowledged);
  tell("mail.released", delivered.released);
  tell("mail.delivered", delivered.shown);
  return events;
}

function forPeople(meaning: Meaning): string {
  const what = meaning.type.slice(meaning.type.indexOf(".") + 1);
  if (meaning.call) {
    const { durationMs, error } = meaning.call;
    const took = durationMs === null ? "" : ` (${durationMs} ms)`;
    return `${what} ${headline(meaning.call)}${took}${error === null ? "" : ` error: ${error}`}`;
  }
  let about = "";
  for (const [key, value] of Object.entries(meaning.data))
    if (value !== null) about += ` ${key}=${JSON.stringify(value)}`;
  return `${what}${about}`;
}
