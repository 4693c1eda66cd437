import { TASK_STATUSES, type TaskStatus } from "../../domain/task.ts";
import type { Ledger, Overview, Restoration } from "../contract.ts";
import { actionsIn, leasesIn } from "./actions.ts";
import { Connection, type OpenOptions } from "./connection.ts";
import { eventsIn, hasEvent, insertEvent } from "./events.ts";
import { LEDGER_SCHEMA } from "./ledger-schema.ts";
import { insertSession, sessionsIn } from "./sessions.ts";
import { insertTask, tasksIn } from "./tasks.ts";
import { usageIn } from "./usage.ts";
import { workersIn } from "./workers.ts";

export function openLedger(file: string, options: OpenOptions): Ledger {
  const connection = Connection.open(file, LEDGER_SCHEMA, options);
  return {
    ...sessionsIn(connection),
    ...workersIn(connection),
    ...usageIn(connection),
    ...actionsIn(connection),
    ...leasesIn(connection),
    ...tasksIn(connection),
    ...eventsIn(connection),

    async overview() {
      return overview(connection);
    },

    async restore(from) {
      return connection.write(() => restore(connection, from));
    },

    async check() {
      return connection.check();
    },

    close() {
      connection.close();
    },
  };
}

function overview(connection: Connection): Overview {
  const tasks = countBy(
    connection,
    "SELECT status AS name, count(*) AS n FROM tasks WHERE kind <> 'goal' GROUP BY status",
  );
  const goals = countBy(
    connection,
    "SELECT status AS name, count(*) AS n FROM tasks WHERE kind = 'goal' GROUP BY status",
  );
  const tick = connection.first<{ at: number }>("SELECT at FROM facts WHERE name = 'tick'");
  return {
    tasks: Object.fromEntries(TASK_STATUSES.map((status) => [status, tasks[status] ?? 0])) as Record<
      TaskStatus,
      number
    >,
    merge: countBy(connection, "SELECT status AS name, count(*) AS n FROM merge_entries GROUP BY status"),
    goals: { active: goals.active ?? 0, total: Object.values(goals).reduce((sum, n) => sum + n, 0) },
    lastTickAt: tick?.at ?? null,
  };
}

function countBy(connection: Connection, sql: string): Record<string, number> {
  return Object.fromEntries(connection.all<{ name: string; n: number }>(sql).map((row) => [row.name, row.n]));
}

function restore(
  connection: Connection,
  from: Restoration,
): { sessions: number; tasks: number; events: number } {
  const isNew = (table: "sessions" | "tasks", id: string) =>
    connection.first(`SELECT 1 FROM ${table} WHERE id = ?`, id) === null;
  const sessions = from.sessions.filter((session) => isNew("sessions", session.id));
  for (const session of sessions) {
    const now = { state: session.state, cause: "restored from the logs", at: session.lastActivityAt };
    insertSession(connection, session, now);
  }
  const tasks = from.tasks.filter((task) => isNew("tasks", task.id));
  for (const task of tasks) insertTask(connection, { ...task, dependsOn: [] }, task.status, task.reason);
  for (const task of tasks) {
    for (const id of task.dependsOn.filter((needed) => !isNew("tasks", needed))) {
      connection.run(
        "INSERT OR IGNORE INTO task_dependencies (task_id, depends_on) VALUES (?, ?)",
        task.id,
        id,
      );
    }
  }
  const events = from.events.filter((event) => !hasEvent(connection, event));
  for (const event of events) insertEvent(connection, event);
  return { sessions: sessions.length, tasks: tasks.length, events: events.length };
}
