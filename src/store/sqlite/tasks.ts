import { OverseerError } from "../../domain/errors.ts";
import { assertMove } from "../../domain/machine.ts";
import { isOpen, type Priority, TASK_MOVES, type TaskKind, type TaskStatus } from "../../domain/task.ts";
import type { MirroredTask, NewTask, Task, TaskFilter, Tasks } from "../contract.ts";
import type { Connection } from "./connection.ts";
import { insertEvent } from "./events.ts";

interface TaskRow {
  id: string;
  kind: TaskKind;
  parent_id: string | null;
  title: string;
  body: string;
  status: TaskStatus;
  priority: Priority;
  files: string;
  tags: string;
  depends_on: string;
  waits_for: string;
  reason: string | null;
  created_at: number;
  updated_at: number;
  ended_at: number | null;
  version: number;
}

const SELECT = `SELECT id, kind, parent_id, title, body, status, priority, files, tags, reason, created_at, updated_at,
  ended_at, version,
  (SELECT json_group_array(depends_on) FROM task_dependencies WHERE task_id = tasks.id) AS depends_on,
  (SELECT json_group_array(d.depends_on) FROM task_dependencies d JOIN tasks needed ON needed.id = d.depends_on
   WHERE d.task_id = tasks.id AND needed.status <> 'done') AS waits_for
  FROM tasks`;
const BY_URGENCY =
  "CASE priority WHEN 'urgent' THEN 0 WHEN 'high' THEN 1 WHEN 'normal' THEN 2 ELSE 3 END, seq";

export function tasksIn(connection: Connection): Tasks {
  return {
    async createTask(task) {
      return connection.write(() => createTask(connection, task));
    },

    async findTask(id) {
      return findTask(connection, id);
    },

    async listTasks(filter) {
      return list(connection, filter);
    },

    async closeTask(id, close) {
      return connection.write(() => {
        const task = findTask(connection, id);
        if (!task) throw unknownTask(id);
        assertOpen(task);
        const queued = closeOpen(connection, task, close);
        return { task: findTask(connection, id) ?? task, queued };
      });
    },

    async claimTask(id, at, event) {
      connection.write(() => {
        const task = findTask(connection, id);
        if (!task) throw unknownTask(id);
        assertOpen(task);
        const ready = task.status === "blocked" ? moveTask(connection, task, "queued", null, at) : task;
        if (ready.status !== "in_progress") moveTask(connection, ready, "in_progress", null, at);
        insertEvent(connection, event);
      });
    },

    async unclaimTask(id, to, reason, at, event) {
      connection.write(() => {
        const task = findTask(connection, id);
        const isClaimed = task?.status === "in_progress";
        if (!task || !isOpen(task.status) || (to === "queued" && !isClaimed)) return;
        moveTask(connection, task, to, reason, at);
        insertEvent(connection, event);
      });
    },
  };
}

export function createTask(connection: Connection, task: NewTask): Task {
  if (findTask(connection, task.id))
    throw new OverseerError("task_exists", `there is a task ${task.id} already`);
  const needed = task.dependsOn.map((id) => {
    const found = findTask(connection, id);
    if (found) return found;
    throw new OverseerError("dependency_unknown", `there is no task ${id} to depend on`, {
      hint: "overseer task list",
    });
  });
  const status: TaskStatus = needed.every((other) => other.status === "done") ? "queued" : "todo";
  insertTask(connection, task, status, null);
  const created = findTask(connection, task.id);
  if (!created) throw new Error(`task ${task.id} was not inserted`);
  insertEvent(connection, {
    at: task.at,
    type: "task.created",
    taskId: task.id,
    data: { actor: task.actor, title: task.title, status },
  });
  return created;
}

/** The row of a task that is kept elsewhere becomes what it is there, with those dependencies that the ledger knows. */
export function mirrorTask(connection: Connection, { status, isNew: _, ...mirror }: MirroredTask): void {
  const dependsOn = mirror.dependsOn.filter((id) => findTask(connection, id) !== null);
  const task = { ...mirror, dependsOn };
  const reason = status === "blocked" ? "its tracker says so" : null;
  const known = findTask(connection, task.id);
  if (known) {
    follow(connection, known, task, status, reason);
    return;
  }
  insertTask(connection, task, status, reason);
  insertEvent(connection, {
    at: task.at,
    type: "task.created",
    taskId: task.id,
    data: { actor: task.actor, title: task.title, status },
  });
}

/** From any state to any other: the machine is the tracker's own. */
function follow(
  connection: Connection,
  known: Task,
  task: NewTask,
  status: TaskStatus,
  reason: string | null,
): void {
  connection.run(
    `UPDATE tasks SET title = ?, body = ?, tags = ?, priority = ?, status = ?, reason = ?, updated_at = ?,
       ended_at = ?, version = version + 1 WHERE id = ? AND version = ?`,
    task.title,
    task.body,
    JSON.stringify(task.tags),
    task.priority,
    status,
    reason,
    task.at,
    isOpen(status) ? null : task.at,
    known.id,
    known.version,
  );
  connection.run("DELETE FROM task_dependencies WHERE task_id = ?", known.id);
  insertDependencies(connection, task);
}

interface Close {
  reason: string;
  actor: string;
  at: number;
}

function closeOpen(connection: Connection, task: Task, { reason, actor, at }: Close): string[] {
  moveTask(connection, task, "done", reason, at);
  const data = { actor, reason, from: task.status };
  insertEvent(connection, { at, type: "task.closed", taskId: task.id, data });
  return queueDependants(connection, task.id, at);
}

/** The tasks that became ready; none when somebody has closed it meanwhile. */
export function closeIfOpen(
  connection: Connection,
  id: string,
  actor: string,
  close: Pick<Close, "reason" | "at">,
): string[] {
  const task = findTask(connection, id);
  return task && isOpen(task.status) ? closeOpen(connection, task, { ...close, actor }) : [];
}

export function insertTask(
  connection: Connection,
  task: NewTask,
  status: TaskStatus,
  reason: string | null,
): void {
  connection.run(
    `INSERT INTO tasks (id, kind, title, body, files, tags, priority, status, reason, created_by, created_at,
       updated_at, ended_at) VALUES (?, 'task', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    task.id,
    task.title,
    task.body,
    JSON.stringify(task.files),
    JSON.stringify(task.tags),
    task.priority,
    status,
    reason,
    task.actor,
    task.at,
    task.at,
    isOpen(status) ? null : task.at,
  );
  insertDependencies(connection, task);
}

function insertDependencies(connection: Connection, task: Pick<NewTask, "id" | "dependsOn">): void {
  for (const id of task.dependsOn) {
    connection.run(
      "INSERT OR IGNORE INTO task_dependencies (task_id, depends_on) VALUES (?, ?)",
      task.id,
      id,
    );
  }
}

function queueDependants(connection: Connection, id: string, at: number): string[] {
  const dependants = connection.all<{ task_id: string }>(
    "SELECT task_id FROM task_dependencies WHERE depends_on = ? ORDER BY task_id",
    id,
  );
  const ready = dependants
    .map((row) => findTask(connection, row.task_id))
    .filter((task) => task?.status === "todo" && task.waitsFor.length === 0)
    .filter((task) => task !== null);
  for (const task of ready) {
    moveTask(connection, task, "queued", null, at);
    insertEvent(connection, { at, type: "task.queued", taskId: task.id, data: { after: id } });
  }
  return ready.map((task) => task.id);
}

function moveTask(
  connection: Connection,
  task: Task,
  to: TaskStatus,
  reason: string | null,
  at: number,
): Task {
  assertMove(TASK_MOVES, task.id, task.status, to);
  connection.run(
    `UPDATE tasks SET status = ?, reason = ?, updated_at = ?, ended_at = ?, version = version + 1
     WHERE id = ? AND version = ?`,
    to,
    reason,
    at,
    isOpen(to) ? null : at,
    task.id,
    task.version,
  );
  return { ...task, status: to, reason, version: task.version + 1 };
}

export function findTask(connection: Connection, id: string): Task | null {
  const row = connection.first<TaskRow>(`${SELECT} WHERE id = ? AND kind <> 'goal'`, id);
  return row && toTask(row);
}

function list(connection: Connection, filter: TaskFilter): Task[] {
  const open = "('todo', 'queued', 'in_progress', 'blocked')";
  const conditions = ["kind <> 'goal'"];
  if (filter.status !== undefined) conditions.push("status = ?");
  if (filter.isOpen) conditions.push(`status IN ${open}`);
  const rows = connection.all<TaskRow>(
    `${SELECT} WHERE ${conditions.join(" AND ")} ORDER BY status NOT IN ${open}, ${BY_URGENCY} LIMIT ?`,
    ...(filter.status === undefined ? [] : [filter.status]),
    filter.limit ?? -1,
  );
  return rows.map(toTask);
}

function assertOpen({ id, status }: Task): void {
  if (isOpen(status)) return;
  throw new OverseerError("task_closed", `${id} is ${status} already`, { hint: `overseer task show ${id}` });
}

function unknownTask(id: string): OverseerError {
  return new OverseerError("task_unknown", `there is no task ${id}`, {
    hint: "overseer task list",
  });
}

function toTask(row: TaskRow): Task {
  return {
    id: row.id,
    kind: row.kind,
    parentId: row.parent_id,
    title: row.title,
    body: row.body,
    status: row.status,
    priority: row.priority,
    files: JSON.parse(row.files),
    tags: JSON.parse(row.tags),
    dependsOn: JSON.parse(row.depends_on),
    waitsFor: JSON.parse(row.waits_for),
    reason: row.reason,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    endedAt: row.ended_at,
    version: row.version,
  };
}
