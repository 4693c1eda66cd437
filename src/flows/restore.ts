import { type EventType, isEventType, type NewEvent } from "../domain/event.ts";
import { isObject } from "../domain/hook-settings.ts";
import { isLive, type SessionState } from "../domain/session.ts";
import type { TaskStatus } from "../domain/task.ts";
import { filesBelow, readBytes } from "../effects/files.ts";
import type { Paths } from "../effects/paths.ts";
import type { NewSession, NewTask, Restoration } from "../store/contract.ts";
import type { NewMessage } from "../store/mail-contract.ts";

interface Told extends NewEvent {
  data: Record<string, unknown>;
}

/** Everything the NDJSON logs tell, oldest first. A line that was cut off or damaged is passed over. */
function readLogs(paths: Paths): Told[] {
  const files = filesBelow(paths.logs).filter(
    (file) => file.startsWith("journal.ndjson") || file.endsWith("/events.ndjson"),
  );
  const told = files.flatMap((file) => {
    const text = readBytes(`${paths.logs}/${file}`)?.toString("utf8") ?? "";
    return text.split("\n").flatMap(toldBy);
  });
  return told.sort((a, b) => a.at - b.at);
}

function toldBy(line: string): Told[] {
  const value = parseLine(line);
  const at = typeof value?.at === "string" ? Date.parse(value.at) : Number.NaN;
  if (!value || Number.isNaN(at) || typeof value.type !== "string" || !isEventType(value.type)) return [];
  const text = (key: string) => (typeof value[key] === "string" ? value[key] : null);
  const data = isObject(value.data) ? value.data : {};
  return [
    {
      at,
      type: value.type,
      agent: text("agent"),
      sessionId: text("sessionId"),
      taskId: text("taskId"),
      data,
    },
  ];
}

function parseLine(line: string): Record<string, unknown> | null {
  if (line === "") return null;
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

export function ledgerFromLogs(paths: Paths): Restoration {
  const told = readLogs(paths);
  return { sessions: sessionsFrom(told), tasks: tasksFrom(told), events: told.map(withoutCopies) };
}

export function mailFromLogs(paths: Paths): (NewMessage & { readAt: number | null })[] {
  const messages = new Map<string, NewMessage & { readAt: number | null }>();
  for (const { type, at, data } of readLogs(paths)) {
    if (type === "mail.sent" && isMessage(data.message))
      messages.set(data.message.id, { ...data.message, readAt: null });
    if (type !== "mail.read" || !Array.isArray(data.ids)) continue;
    for (const id of data.ids) {
      const message = messages.get(String(id));
      if (message) message.readAt = at;
    }
  }
  return [...messages.values()];
}

/** The journal repeats whole tasks, messages and sessions; the ledger's own events have only what tells them apart. */
function withoutCopies(event: Told): NewEvent {
  const { task, message, session, ...data } = event.data;
  return { ...event, data: { ...data, ...essence(task, message, session) } };
}

function essence(task: unknown, message: unknown, session: unknown): Record<string, unknown> {
  if (isTask(task)) return { actor: task.actor, title: task.title };
  if (isMessage(message)) {
    const { id, to, subject, type, priority } = message;
    return { id, to, subject, type, priority };
  }
  return isSession(session) ? { capability: session.capability, parent: session.parent ?? null } : {};
}

function sessionsFrom(told: readonly Told[]): Restoration["sessions"] {
  const byId = Map.groupBy(told, (event) => event.sessionId ?? "");
  const found = told.flatMap(({ type, data }) =>
    type === "session.registered" && isSession(data.session) ? [data.session] : [],
  );
  const newest = new Map(found.map((session) => [session.name, session.id]));
  return found.map((session) => {
    const events = byId.get(session.id) ?? [];
    const last = events.at(-1);
    const state = lastState(events.map((event) => event.type));
    return {
      ...session,
      state: isLive(state) && newest.get(session.name) !== session.id ? "stopped" : state,
      lastActivityAt: last?.at ?? session.startedAt,
    };
  });
}

function lastState(types: readonly EventType[]): SessionState {
  switch (types.findLast((type) => type !== "session.notified" && type.startsWith("session."))) {
    case "session.ended":
      return "stopped";
    case "session.stopped":
      return "stopped";
    case "session.died":
      return "zombie";
    case "session.spawn_failed":
      return "failed";
    case "session.completed":
      return "completed";
    case "session.turn_ended":
    case "session.turn_failed":
      return "idle";
    case "session.registered":
    case "session.launched":
      return "booting";
    default:
      return "working";
  }
}

function tasksFrom(told: readonly Told[]): Restoration["tasks"] {
  const tasks = new Map<string, NewTask & { status: TaskStatus; reason: string | null }>();
  for (const { type, taskId, data } of told) {
    if (type === "task.created" && isTask(data.task)) {
      tasks.set(data.task.id, {
        ...data.task,
        status: data.status === "todo" ? "todo" : "queued",
        reason: null,
      });
    }
    const task = tasks.get(taskId ?? "");
    if (task && type === "task.queued") task.status = "queued";
    if (task && type === "task.claimed") task.status = "in_progress";
    if (task && type === "task.released") task.status = data.cancelled === true ? "cancelled" : "queued";
    if (task && type === "task.closed") {
      task.status = "done";
      task.reason = typeof data.reason === "string" ? data.reason : null;
    }
  }
  return [...tasks.values()];
}

// Our own lines, so their shape is known; what must not be missing is checked.
function isSession(value: unknown): value is NewSession {
  return hasTexts(value, ["id", "name", "capability", "logFolder"]);
}

function isTask(value: unknown): value is NewTask {
  return (
    hasTexts(value, ["id", "title", "body", "priority", "actor"]) &&
    isObject(value) &&
    Array.isArray(value.dependsOn)
  );
}

function isMessage(value: unknown): value is NewMessage {
  return hasTexts(value, ["id", "from", "to", "subject", "body", "type", "priority", "threadId"]);
}

function hasTexts(value: unknown, keys: readonly string[]): boolean {
  return isObject(value) && keys.every((key) => typeof value[key] === "string");
}
