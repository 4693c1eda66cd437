import { EVENT_TYPES, type EventType, type NewEvent } from "../../domain/event.ts";
import type { EventFilter, Events, StoredEvent } from "../contract.ts";
import type { Bindings, Connection } from "./connection.ts";

interface EventRow {
  seq: number;
  at: number;
  type: EventType;
  agent: string | null;
  session_id: string | null;
  task_id: string | null;
  data: string;
}

export function eventsIn(connection: Connection): Events {
  return {
    async appendEvents(events) {
      connection.write(() => {
        for (const event of events) insertEvent(connection, event);
      });
    },

    async listEvents(filter) {
      const rows = filter.type === undefined ? newest(connection, filter) : newestOfTypes(connection, filter);
      return rows.reverse().map(toEvent);
    },

    async compactEvents(before, at) {
      return connection.write(() => compact(connection, before, at));
    },
  };
}

export function insertEvent(connection: Connection, event: NewEvent): void {
  connection.run(
    "INSERT INTO events (at, type, agent, session_id, task_id, data) VALUES (?, ?, ?, ?, ?, ?)",
    ...columnsOf(event),
  );
}

export function hasEvent(connection: Connection, event: NewEvent): boolean {
  const same = connection.first(
    `SELECT 1 FROM events WHERE at = ? AND type = ? AND agent IS ? AND session_id IS ? AND task_id IS ? AND data = ?`,
    ...columnsOf(event),
  );
  return same !== null;
}

function columnsOf({ at, type, agent, sessionId, taskId, data }: NewEvent): Bindings[] {
  return [at, type, agent ?? null, sessionId ?? null, taskId ?? null, JSON.stringify(data ?? {})];
}

// One query per type: each walks its index backwards and stops at the limit, however rare or frequent the type is.
function newestOfTypes(connection: Connection, filter: EventFilter): EventRow[] {
  const types = Object.keys(EVENT_TYPES).filter(
    (type) => type === filter.type || type.startsWith(`${filter.type}.`),
  );
  const rows = types.flatMap((type) => newest(connection, { ...filter, type }));
  return rows.sort((a, b) => b.seq - a.seq).slice(0, filter.limit);
}

function newest(connection: Connection, filter: EventFilter): EventRow[] {
  const wanted: [string, Bindings | undefined][] = [
    ["agent = ?", filter.agent],
    ["type = ?", filter.type],
    ["at >= ?", filter.since],
    ["seq > ?", filter.afterSeq],
  ];
  const given = wanted.filter((pair): pair is [string, Bindings] => pair[1] !== undefined);
  const where = given.length === 0 ? "" : `WHERE ${given.map(([condition]) => condition).join(" AND ")}`;
  const order = filter.since === undefined ? "seq DESC" : "at DESC, seq DESC";
  return connection.all<EventRow>(
    `SELECT seq, at, type, agent, session_id, task_id, data FROM events ${where} ORDER BY ${order} LIMIT ?`,
    ...given.map(([, value]) => value),
    filter.limit,
  );
}

function compact(
  connection: Connection,
  before: number,
  at: number,
): { removed: number; milestones: number } {
  const groups = connection.all<{
    agent: string | null;
    type: string;
    n: number;
    first: number;
    last: number;
  }>(
    `SELECT agent, type, count(*) AS n, min(at) AS first, max(at) AS last FROM events
     WHERE at < ? AND type <> 'session.milestone' GROUP BY agent, type`,
    before,
  );
  const byAgent = Map.groupBy(groups, (group) => group.agent);
  for (const [agent, counted] of byAgent) {
    const first = Math.min(...counted.map((group) => group.first));
    const last = Math.max(...counted.map((group) => group.last));
    const counts = Object.fromEntries(counted.map((group) => [group.type, group.n]));
    insertEvent(connection, { at, type: "session.milestone", agent, data: { first, last, counts } });
  }
  const removed = connection.run("DELETE FROM events WHERE at < ? AND type <> 'session.milestone'", before);
  return { removed, milestones: byAgent.size };
}

function toEvent(row: EventRow): StoredEvent {
  const { session_id: sessionId, task_id: taskId, data, ...rest } = row;
  return { ...rest, sessionId, taskId, data: JSON.parse(data) };
}
