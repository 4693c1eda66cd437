import { canMove } from "../../domain/machine.ts";
import { ORCHESTRATOR } from "../../domain/names.ts";
import {
  completionId,
  isLive,
  SESSION_MOVES,
  type SessionState,
  stepSession,
  type WaitingReason,
} from "../../domain/session.ts";
import type { Activity, NewSession, Recorded, Session, SessionKey, Sessions } from "../contract.ts";
import type { Connection } from "./connection.ts";
import { insertEvent } from "./events.ts";

export interface SessionRow {
  id: string;
  name: string;
  capability: string;
  task_id: string | null;
  parent: string | null;
  depth: number;
  worktree: string | null;
  branch: string | null;
  base_commit: string | null;
  model: string | null;
  tmux_session: string | null;
  pane_id: string | null;
  pid: number | null;
  pid_started: string | null;
  claude_session_id: string | null;
  transcript_path: string | null;
  state: SessionState;
  reason: WaitingReason | null;
  reason_until: number | null;
  cause: string;
  state_at: number;
  started_at: number;
  ended_at: number | null;
  last_activity_at: number;
  tool_name: string | null;
  tool_started_at: number | null;
  tools_in_flight: number;
  file_scope: string;
  log_folder: string;
  version: number;
  is_newest: number;
}

/** The states of `isLive`, for SQL. */
export const LIVE = "('booting', 'working', 'idle', 'waiting', 'stalled')";

export const COLUMNS = `id, name, capability, task_id, parent, depth, worktree, branch, base_commit, model,
  tmux_session, pane_id, pid, pid_started, claude_session_id, transcript_path, state, reason, reason_until, cause, state_at, started_at, ended_at, last_activity_at, tool_name, tool_started_at,
  tools_in_flight, file_scope, log_folder, version,
  seq = (SELECT max(seq) FROM sessions AS other WHERE other.name = sessions.name) AS is_newest`;

/** Beyond this nobody counts. */
const MOST_MAIL_TURNS = 20;

export function sessionsIn(connection: Connection): Sessions {
  return {
    async ensureOrchestrator(session) {
      const find = () => rowOf(connection, { orchestrator: session.claudeSessionId });
      const known = find();
      if (known && known.pid === (session.pid ?? null)) return toSession(known);
      return connection.write(() => {
        const meanwhile = find();
        if (!meanwhile) return register(connection, session);
        // Resumed, a conversation goes on under another pid.
        connection.run("UPDATE sessions SET pid = ? WHERE id = ?", session.pid ?? null, meanwhile.id);
        return toSession({ ...meanwhile, pid: session.pid ?? null });
      });
    },

    async findSession(key) {
      const row = rowOf(connection, key);
      return row && { session: toSession(row), isCurrent: isCurrent(row) };
    },

    async recordActivity(key, activity) {
      return connection.write(() => record(connection, key, activity));
    },

    async isCompleting(sessionId) {
      const sql = "SELECT 1 FROM actions WHERE id = ? AND state IN ('planned', 'running')";
      return connection.first(sql, completionId(sessionId)) !== null;
    },

    async mailTurns(sessionId) {
      const rows = connection.all<{ data: string }>(
        `SELECT e.data FROM events e JOIN sessions s ON s.name = e.agent
         WHERE s.id = ? AND e.session_id = s.id AND e.type = 'session.prompted' ORDER BY e.seq DESC LIMIT ?`,
        sessionId,
        MOST_MAIL_TURNS,
      );
      const firstOther = rows.findIndex(({ data }) => JSON.parse(data).by !== "mail");
      return firstOther === -1 ? rows.length : firstOther;
    },

    async currentSession(name) {
      const row = connection.first<SessionRow>(
        `SELECT ${COLUMNS} FROM sessions WHERE name = ? ORDER BY seq DESC LIMIT 1`,
        name,
      );
      return row && toSession(row);
    },

    async liveWorkers(limit) {
      const rows = connection.all<SessionRow>(
        `SELECT ${COLUMNS} FROM sessions WHERE capability <> '${ORCHESTRATOR}'
           AND state IN ${LIVE} ORDER BY seq LIMIT ?`,
        limit,
      );
      return rows.map(toSession);
    },

    async currentSessions() {
      const rows = connection.all<SessionRow>(
        `SELECT ${COLUMNS} FROM sessions WHERE seq IN (SELECT max(seq) FROM sessions GROUP BY name)
           OR (capability = '${ORCHESTRATOR}' AND state IN ${LIVE}) ORDER BY state NOT IN ${LIVE}, seq`,
      );
      return rows.map(toSession);
    },
  };
}

export function insertSession(
  connection: Connection,
  session: NewSession,
  now: { state: SessionState; cause: string; at: number },
): void {
  connection.run(
    `INSERT INTO sessions (id, name, capability, token_hash, task_id, parent, depth, worktree, branch, pid,
       base_commit, model, claude_session_id, transcript_path, file_scope, log_folder, state, cause, state_at, started_at,
       ended_at, last_activity_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    session.id,
    session.name,
    session.capability,
    session.tokenHash,
    session.taskId ?? null,
    session.parent ?? null,
    session.depth ?? 0,
    session.worktree ?? null,
    session.branch ?? null,
    session.pid ?? null,
    session.baseCommit ?? null,
    session.model ?? null,
    session.claudeSessionId ?? null,
    session.transcriptPath ?? null,
    JSON.stringify(session.fileScope ?? []),
    session.logFolder,
    now.state,
    now.cause,
    now.at,
    session.startedAt,
    isLive(now.state) ? null : now.at,
    now.at,
  );
}

export function register(connection: Connection, session: NewSession): Session {
  insertSession(connection, session, { state: "booting", cause: "registered", at: session.startedAt });
  insertEvent(connection, {
    at: session.startedAt,
    type: "session.registered",
    agent: session.name,
    sessionId: session.id,
    taskId: session.taskId ?? null,
    data: { capability: session.capability, parent: session.parent ?? null },
  });
  const row = rowOf(connection, { sessionId: session.id });
  if (!row) throw new Error(`session ${session.id} was not inserted`);
  return toSession(row);
}

function record(connection: Connection, key: SessionKey, activity: Activity): Recorded | null {
  const row = rowOf(connection, key);
  if (!row) return null;
  const current = isCurrent(row);
  updateActivity(connection, row, activity);
  if (current) moveState(connection, row, activity);
  insertEvent(connection, {
    at: activity.at,
    type: activity.event,
    agent: row.name,
    sessionId: row.id,
    taskId: row.task_id,
    data: activity.data,
  });
  return { session: toSession(row), isCurrent: current };
}

function updateActivity(connection: Connection, row: SessionRow, activity: Activity): void {
  row.last_activity_at = Math.max(row.last_activity_at, activity.at);
  row.claude_session_id = activity.claudeSessionId ?? row.claude_session_id;
  row.transcript_path = activity.transcriptPath ?? row.transcript_path;
  row.tools_in_flight = toolsInFlight(row, activity);
  if (activity.tool?.phase === "started") {
    row.tool_name = activity.tool.name;
    row.tool_started_at = activity.at;
  } else if (row.tools_in_flight === 0) {
    row.tool_name = null;
    row.tool_started_at = null;
  }
  connection.run(
    `UPDATE sessions SET last_activity_at = ?, claude_session_id = ?, transcript_path = ?, tools_in_flight = ?,
       tool_name = ?, tool_started_at = ?, last_turn_ended_at = coalesce(?, last_turn_ended_at) WHERE id = ?`,
    row.last_activity_at,
    row.claude_session_id,
    row.transcript_path,
    row.tools_in_flight,
    row.tool_name,
    row.tool_started_at,
    activity.signal.kind === "turn_ended" ? activity.at : null,
    row.id,
  );
}

function toolsInFlight(row: SessionRow, activity: Activity): number {
  if (activity.tool?.phase === "started") return row.tools_in_flight + 1;
  if (activity.tool?.phase === "ended") return Math.max(0, row.tools_in_flight - 1);
  const isMidTurn = activity.signal.kind === "noticed" || activity.signal.kind === "waiting";
  return isMidTurn ? row.tools_in_flight : 0;
}

function moveState(connection: Connection, row: SessionRow, activity: Activity): void {
  const before = { state: row.state, reason: row.reason, cause: row.cause };
  const after = stepSession(before, activity.signal);
  const until = activity.signal.kind === "waiting" ? (activity.signal.until ?? null) : null;
  if (
    after === before ||
    (after.state !== before.state && !canMove(SESSION_MOVES, before.state, after.state))
  )
    return;
  row.state_at = activity.at;
  row.ended_at = isLive(after.state) ? null : activity.at;
  connection.run(
    `UPDATE sessions SET state = ?, reason = ?, reason_until = ?, cause = ?, state_at = ?, ended_at = ?, version = version + 1
     WHERE id = ? AND version = ?`,
    after.state,
    after.reason,
    until,
    after.cause,
    row.state_at,
    row.ended_at,
    row.id,
    row.version,
  );
  Object.assign(row, after, { reason_until: until, version: row.version + 1 });
}

export function rowOf(connection: Connection, key: SessionKey): SessionRow | null {
  const select = `SELECT ${COLUMNS} FROM sessions`;
  if ("tokenHash" in key) return connection.first(`${select} WHERE token_hash = ?`, key.tokenHash);
  if ("sessionId" in key) return connection.first(`${select} WHERE id = ?`, key.sessionId);
  return connection.first(
    `${select} WHERE claude_session_id = ? AND capability = '${ORCHESTRATOR}' ORDER BY seq DESC LIMIT 1`,
    key.orchestrator,
  );
}

/** The person may run several Claude Code sessions at once; each of them is the orchestrator. */
function isCurrent(row: SessionRow): boolean {
  return row.capability === ORCHESTRATOR || row.is_newest === 1;
}

export function toSession(row: SessionRow): Session {
  return {
    id: row.id,
    name: row.name,
    capability: row.capability,
    taskId: row.task_id,
    parent: row.parent,
    depth: row.depth,
    worktree: row.worktree,
    branch: row.branch,
    baseCommit: row.base_commit,
    model: row.model,
    tmuxSession: row.tmux_session,
    paneId: row.pane_id,
    pid: row.pid,
    mark: row.pid === null || row.pid_started === null ? null : `${row.pid}:${row.pid_started}`,
    claudeSessionId: row.claude_session_id,
    transcriptPath: row.transcript_path,
    state: row.state,
    reason: row.reason,
    reasonUntil: row.reason_until,
    cause: row.cause,
    stateAt: row.state_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    lastActivityAt: row.last_activity_at,
    toolName: row.tool_name,
    toolStartedAt: row.tool_started_at,
    toolsInFlight: row.tools_in_flight,
    fileScope: JSON.parse(row.file_scope),
    logFolder: row.log_folder,
    version: row.version,
  };
}
