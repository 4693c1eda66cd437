import { OverseerError } from "../../domain/errors.ts";
import type { NewEvent } from "../../domain/event.ts";
import { canMove } from "../../domain/machine.ts";
import { nameTaken, ORCHESTRATOR } from "../../domain/names.ts";
import { type Holder, scopeConflict } from "../../domain/scope.ts";
import { isLive, SESSION_MOVES, type SessionState } from "../../domain/session.ts";
import { isOpen } from "../../domain/task.ts";
import type { MergeEntry, NewMergeEntry, NewSession, Reservation, Session, Workers } from "../contract.ts";
import { insertAction } from "./actions.ts";
import type { Connection } from "./connection.ts";
import { insertEvent } from "./events.ts";
import { COLUMNS, LIVE, register, rowOf, type SessionRow, toSession } from "./sessions.ts";
import { closeIfOpen, createTask, findTask, mirrorTask } from "./tasks.ts";

const NEWEST = "seq = (SELECT max(seq) FROM sessions AS other WHERE other.name = sessions.name)";

/** A session and the earlier ones of its name. */
const UP_TO = `EXISTS (SELECT 1 FROM sessions AS last
  WHERE last.id = ? AND last.name = sessions.name AND sessions.seq <= last.seq)`;

export function workersIn(connection: Connection): Workers {
  return {
    async registerSession(session, reservation) {
      return connection.write(() => {
        assertFreeName(connection, session.name);
        if (reservation) assertRested(connection, session.name);
        return reservation ? reserve(connection, session, reservation) : register(connection, session);
      });
    },

    async recordLaunch(sessionId, launched, event) {
      return connection.write(() => {
        const changes = connection.run(
          `UPDATE sessions SET tmux_session = ?, pane_id = ?, pid = ?, pid_started = ?,
             claude_session_id = coalesce(?, claude_session_id) WHERE id = ? AND state IN ${LIVE}`,
          launched.tmuxSession,
          launched.paneId,
          launched.pid,
          launched.mark?.slice(launched.mark.indexOf(":") + 1) ?? null,
          launched.claudeSessionId,
          sessionId,
        );
        if (changes > 0) insertEvent(connection, event);
        return changes > 0;
      });
    },

    async endSession(sessionId, end, event) {
      return connection.write(() => {
        const isAsSeen = !end.from || rowOf(connection, { sessionId })?.state === end.from;
        const hasEnded = isAsSeen && moveTo(connection, sessionId, end.state, end.cause, end.at);
        if (hasEnded) insertEvent(connection, event);
        return hasEnded;
      });
    },

    async succeedSession(previous, next, reservation) {
      return connection.write(() => {
        const row = rowOf(connection, { sessionId: previous.id });
        if (row?.is_newest !== 1 || row.version !== previous.version) throw changedMeanwhile(previous.name);
        if (isLive(row.state)) moveTo(connection, row.id, "zombie", "its process is gone", next.startedAt);
        return reserve(connection, next, reservation);
      });
    },

    async completeSession(sessionId, completion, event) {
      return connection.write(() => {
        const row = rowOf(connection, { sessionId });
        if (!row || !moveTo(connection, sessionId, "completed", "it closed its task", completion.at))
          return { queued: [] };
        insertEvent(connection, event);
        replaceHeld(connection, row, completion.at);
        if (completion.entry)
          enqueue(connection, row, completion.entry, completion.heldFor ?? null, completion.at);
        const isDone = row.task_id !== null && completion.entry === null;
        return { queued: isDone ? closeIfOpen(connection, row.task_id ?? "", row.name, completion) : [] };
      });
    },

    async releaseWorktree(sessionId, fate, event) {
      connection.write(() => {
        if (fate !== "undone") settleEntries(connection, sessionId, fate, event.at);
        connection.run(`UPDATE sessions SET worktree = NULL WHERE ${UP_TO}`, sessionId);
        insertEvent(connection, event);
      });
    },

    async pastSessions(of) {
      const [column, value] = "name" in of ? ["name", of.name] : ["task_id", of.taskId];
      const sql = `SELECT ${COLUMNS} FROM sessions WHERE ${column} = ? ORDER BY seq DESC`;
      return connection.all<SessionRow>(sql, value ?? "").map(toSession);
    },

    async mergeEntries({ sessionId, taskId }) {
      const rows = connection.all<EntryRow>(
        `SELECT id, branch, commit_id, into_ref, files, task_id, session_id, status, tier, error, enqueued_at FROM merge_entries
         WHERE (?1 IS NULL OR session_id = ?1) AND (?2 IS NULL OR task_id = ?2) ORDER BY enqueued_at DESC`,
        sessionId ?? null,
        taskId ?? null,
      );
      return rows.map(toEntry);
    },
  };
}

function assertFreeName(connection: Connection, name: string): void {
  const sql = `SELECT 1 FROM sessions WHERE name = ? AND state IN ${LIVE} AND ${NEWEST}`;
  if (connection.first(sql, name) !== null) throw nameTaken(name);
}

/** Not while an earlier spawn of that name is taken back, nor while somebody still works for that name. */
function assertRested(connection: Connection, name: string): void {
  const spawning = "SELECT 1 FROM actions WHERE kind = 'spawn' AND subject = ? AND state = 'running'";
  if (connection.first(spawning, name) !== null) {
    throw new OverseerError("name_taken", `another sling of ${name} is just being taken back`, {
      hint: "try again in a moment",
    });
  }
  const children = connection.all<{ name: string }>(
    `SELECT name FROM sessions WHERE parent = ? AND state IN ${LIVE} AND ${NEWEST}`,
    name,
  );
  if (children.length === 0) return;
  const names = children.map((child) => child.name).join(", ");
  throw new OverseerError(
    "name_taken",
    `${names} still ${children.length === 1 ? "works" : "work"} for ${name}`,
    {
      hint: `overseer resume ${name}, or choose another name`,
    },
  );
}

function reserve(connection: Connection, session: NewSession, reservation: Reservation): Session {
  assertRoom(connection, reservation.maxConcurrent);
  assertFreeFiles(connection, session);
  if (reservation.mirror) mirrorTask(connection, reservation.mirror);
  if (reservation.newTask) createTask(connection, reservation.newTask);
  else if (session.taskId) assertFreeTask(connection, session.taskId, session.name);
  insertAction(connection, {
    id: session.id,
    kind: "spawn",
    subject: session.name,
    payload: { ...reservation.notes, step: "reserve", isNewTask: isNewTask(reservation) },
    state: "running",
    owner: reservation.owner,
    at: session.startedAt,
  });
  return register(connection, session);
}

function isNewTask({ newTask, mirror }: Reservation): boolean {
  return newTask !== null || mirror?.isNew === true;
}

function assertRoom(connection: Connection, maxConcurrent: number): void {
  const sql = `SELECT name FROM sessions WHERE capability <> '${ORCHESTRATOR}' AND state IN ${LIVE} ORDER BY seq`;
  const live = connection.all<{ name: string }>(sql).map(({ name }) => name);
  if (live.length < maxConcurrent) return;
  const who =
    live.length > 5 ? `${live.slice(0, 5).join(", ")} and ${live.length - 5} more` : live.join(", ");
  const there = live.length === 1 ? "1 worker is" : `${live.length} workers are`;
  throw new OverseerError(
    "too_many_workers",
    `${there} live already (${who}), at most ${maxConcurrent} may be`,
    {
      hint: "wait for one: overseer wait --any; or raise agents.maxConcurrent in .overseer/config.yaml",
    },
  );
}

/** Whoever lives, has left work behind, or waits for its branch to land holds its files. */
function assertFreeFiles(connection: Connection, session: NewSession): void {
  const fileScope = session.fileScope ?? [];
  if (fileScope.length === 0) return;
  const rows = connection.all<{
    name: string;
    parent: string | null;
    file_scope: string;
    state: SessionState;
  }>(
    `SELECT name, parent, file_scope, state FROM sessions WHERE capability <> '${ORCHESTRATOR}' AND ${NEWEST} AND (
       state IN ${LIVE} OR (state <> 'completed' AND worktree IS NOT NULL) OR EXISTS (
         SELECT 1 FROM merge_entries WHERE session_id = sessions.id AND status NOT IN ('merged', 'aborted')))`,
  );
  const holders = rows.map(({ name, parent, file_scope }): Holder => {
    return { name, parent, fileScope: JSON.parse(file_scope) };
  });
  const conflict = scopeConflict({ name: session.name, parent: session.parent ?? null, fileScope }, holders);
  if (!conflict) return;
  const { holder, scope } = conflict;
  const state = rows.find(({ name }) => name === holder)?.state ?? "stopped";
  throw new OverseerError("scope_taken", `${scope} is ${holder}'s, who is ${state}`, {
    hint: isLive(state)
      ? `give --files that do not overlap, or wait: overseer wait ${holder}`
      : `land or give up that work first: overseer diff ${holder}, overseer worktree clean ${holder}`,
  });
}

function assertFreeTask(connection: Connection, id: string, name: string): void {
  const task = findTask(connection, id);
  const hint = `overseer task show ${id}`;
  if (!task)
    throw new OverseerError("task_unknown", `there is no task ${id}`, { hint: "overseer task list" });
  if (!isOpen(task.status))
    throw new OverseerError("task_closed", `${id} is ${task.status} already`, { hint });
  if (task.status === "todo") {
    throw new OverseerError("task_waits", `${id} waits for ${task.waitsFor.join(", ")}`, { hint });
  }
  const holder = connection.first<{ name: string }>(
    `SELECT name FROM sessions WHERE task_id = ? AND name <> ? AND state IN ${LIVE}`,
    id,
    name,
  );
  if (holder) {
    throw new OverseerError("task_taken", `${holder.name} works on ${id} already`, {
      hint: `give the new worker a task of its own, or overseer stop ${holder.name}`,
    });
  }
  // Whoever handed in what is held may do so again.
  const waiting = connection.first<{ branch: string }>(
    `SELECT branch FROM merge_entries WHERE task_id = ? AND status NOT IN ('merged', 'aborted')
       AND NOT (status = 'held' AND session_id IN (SELECT id FROM sessions WHERE name = ?))`,
    id,
    name,
  );
  if (waiting) {
    throw new OverseerError(
      "task_taken",
      `${id} is finished on ${waiting.branch}, which waits to be merged`,
      { hint: "once it has landed: overseer worktree clean --completed" },
    );
  }
}

/** False when the machine does not allow it: it has ended otherwise. */
function moveTo(connection: Connection, id: string, state: SessionState, cause: string, at: number): boolean {
  const row = rowOf(connection, { sessionId: id });
  // Said again of one that was judged from outside, with a better reason; an end of its own happens once.
  const isSaidAgain = row?.state === state && (state === "stopped" || state === "zombie");
  if (!row || !(isSaidAgain || canMove(SESSION_MOVES, row.state, state))) return false;
  connection.run(
    `UPDATE sessions SET state = ?, reason = NULL, reason_until = NULL, cause = ?, state_at = ?, ended_at = ?,
       tool_name = NULL, tool_started_at = NULL, tools_in_flight = 0, version = version + 1
     WHERE id = ? AND version = ?`,
    state,
    cause,
    at,
    at,
    id,
    row.version,
  );
  return true;
}

function enqueue(
  connection: Connection,
  row: SessionRow,
  entry: NewMergeEntry,
  heldFor: string | null,
  at: number,
): void {
  connection.run(
    `INSERT OR IGNORE INTO merge_entries (id, branch, commit_id, into_ref, task_id, session_id, files, priority, status,
       error, enqueued_at, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, coalesce((SELECT priority FROM tasks WHERE id = ?), 'normal'), ?, ?, ?, ?)`,
    entry.id,
    entry.branch,
    entry.commit,
    entry.into,
    row.task_id,
    row.id,
    JSON.stringify(entry.files),
    row.task_id,
    heldFor === null ? "pending" : "held",
    heldFor,
    at,
    at,
  );
  const about = { entry: entry.id, branch: entry.branch, commit: entry.commit, into: entry.into };
  const data = heldFor === null ? about : { ...about, why: heldFor };
  const told: NewEvent = {
    at,
    type: heldFor === null ? "merge.enqueued" : "merge.held",
    agent: row.name,
    sessionId: row.id,
    taskId: row.task_id,
    data,
  };
  insertEvent(connection, told);
}

/** A worker that was resumed because its branch was held hands it in anew. */
function replaceHeld(connection: Connection, row: SessionRow, at: number): void {
  connection.run(
    `UPDATE merge_entries SET status = 'aborted', updated_at = ?, version = version + 1
     WHERE status = 'held' AND branch = ? AND session_id IN (SELECT id FROM sessions WHERE ${UP_TO})`,
    at,
    row.branch,
    row.id,
  );
}

function settleEntries(
  connection: Connection,
  sessionId: string,
  fate: "merged" | "aborted",
  at: number,
): void {
  connection.run(
    `UPDATE merge_entries SET status = ?, updated_at = ?, version = version + 1
     WHERE status IN ('pending', 'waiting', 'held', 'conflict', 'failed')
       AND session_id IN (SELECT id FROM sessions WHERE ${UP_TO})`,
    fate,
    at,
    sessionId,
  );
}

interface EntryRow {
  id: string;
  branch: string;
  commit_id: string;
  into_ref: string;
  files: string;
  task_id: string | null;
  session_id: string | null;
  status: string;
  tier: string | null;
  error: string | null;
  enqueued_at: number;
}

function toEntry(row: EntryRow): MergeEntry {
  const { id, branch, commit_id: commit, into_ref: into, status, tier, error } = row;
  const { task_id: taskId, session_id: sessionId, enqueued_at: enqueuedAt } = row;
  const files: string[] = JSON.parse(row.files);
  return { id, branch, commit, into, files, taskId, sessionId, status, tier, error, enqueuedAt };
}

function changedMeanwhile(name: string): OverseerError {
  return new OverseerError("changed_meanwhile", `${name} has changed at this very moment`, {
    hint: "overseer status",
  });
}
