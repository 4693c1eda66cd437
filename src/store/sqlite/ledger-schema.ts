import type { Schema } from "./connection.ts";

/** The ledger, `sessions.db`. A migration that has been released is never changed, only followed by another. */
export const LEDGER_SCHEMA: Schema = {
  enoughForHooks: 1,
  migrations: [
    `
CREATE TABLE tasks (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL CHECK (kind IN ('goal', 'phase', 'task', 'subtask')),
  parent_id TEXT REFERENCES tasks (id),
  goal_id TEXT REFERENCES tasks (id),
  title TEXT NOT NULL,
  body TEXT NOT NULL DEFAULT '',
  acceptance TEXT NOT NULL DEFAULT '[]',
  files TEXT NOT NULL DEFAULT '[]',
  tags TEXT NOT NULL DEFAULT '[]',
  hints TEXT NOT NULL DEFAULT '{}',
  details TEXT NOT NULL DEFAULT '{}',
  priority TEXT NOT NULL DEFAULT 'normal' CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
  status TEXT NOT NULL CHECK (
    CASE kind
      WHEN 'goal' THEN status IN ('active', 'paused', 'completed', 'cancelled', 'archived')
      ELSE status IN ('todo', 'queued', 'in_progress', 'blocked', 'done', 'cancelled')
    END
  ),
  reason TEXT,
  created_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  version INTEGER NOT NULL DEFAULT 1,
  CHECK (kind = 'goal' OR status <> 'blocked' OR reason IS NOT NULL)
);
CREATE INDEX tasks_by_status ON tasks (status, seq);
CREATE INDEX tasks_by_parent ON tasks (parent_id);
CREATE INDEX tasks_by_goal ON tasks (goal_id);

CREATE TABLE task_dependencies (
  task_id TEXT NOT NULL REFERENCES tasks (id),
  depends_on TEXT NOT NULL REFERENCES tasks (id),
  PRIMARY KEY (task_id, depends_on),
  CHECK (task_id <> depends_on)
) WITHOUT ROWID;
CREATE INDEX dependants ON task_dependencies (depends_on);

CREATE TABLE sessions (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  capability TEXT NOT NULL,
  token_hash TEXT UNIQUE,
  task_id TEXT,
  parent TEXT,
  parent_session_id TEXT,
  depth INTEGER NOT NULL DEFAULT 0 CHECK (depth >= 0),
  worktree TEXT,
  branch TEXT,
  base_commit TEXT,
  file_scope TEXT NOT NULL DEFAULT '[]',
  model TEXT,
  tmux_session TEXT,
  pane_id TEXT,
  pid INTEGER,
  pid_started TEXT,
  claude_session_id TEXT,
  transcript_path TEXT,
  log_folder TEXT NOT NULL,
  state TEXT NOT NULL CHECK (
    state IN ('booting', 'working', 'idle', 'waiting', 'stalled', 'completed', 'stopped', 'failed', 'zombie')
  ),
  reason TEXT CHECK (reason IN ('permission', 'question', 'rate_limit', 'context_full', 'paused')),
  reason_until INTEGER,
  cause TEXT NOT NULL,
  state_at INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  last_activity_at INTEGER NOT NULL,
  last_turn_ended_at INTEGER,
  tool_name TEXT,
  tool_started_at INTEGER,
  tools_in_flight INTEGER NOT NULL DEFAULT 0 CHECK (tools_in_flight >= 0),
  supervision TEXT NOT NULL DEFAULT '{}',
  version INTEGER NOT NULL DEFAULT 1,
  CHECK ((state = 'waiting') = (reason IS NOT NULL))
);
CREATE UNIQUE INDEX one_live_session_per_name ON sessions (name)
  WHERE capability <> 'orchestrator' AND state IN ('booting', 'working', 'idle', 'waiting', 'stalled');
CREATE INDEX sessions_by_name ON sessions (name, seq);
CREATE INDEX sessions_by_claude_session ON sessions (claude_session_id);

CREATE TABLE assignments (
  id TEXT PRIMARY KEY,
  task_id TEXT NOT NULL REFERENCES tasks (id),
  session_id TEXT REFERENCES sessions (id),
  state TEXT NOT NULL CHECK (
    state IN ('queued', 'dispatched', 'active', 'stalled', 'blocked', 'done', 'cancelled')
  ),
  instruction TEXT NOT NULL DEFAULT '',
  instruction_hash TEXT,
  dispatched_at INTEGER,
  observed_at INTEGER,
  expected_update_at INTEGER,
  idle_after_ms INTEGER,
  retry_count INTEGER NOT NULL DEFAULT 0,
  retried_at INTEGER,
  backoff_until INTEGER,
  rung TEXT,
  blocked_reason TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  version INTEGER NOT NULL DEFAULT 1,
  CHECK (state <> 'blocked' OR blocked_reason IS NOT NULL)
) WITHOUT ROWID;
CREATE INDEX assignments_by_task ON assignments (task_id);
CREATE INDEX assignments_by_session ON assignments (session_id);

CREATE TABLE dispatches (
  id TEXT PRIMARY KEY,
  assignment_id TEXT NOT NULL REFERENCES assignments (id),
  at INTEGER NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('send', 'spawn', 'escalate')),
  target TEXT NOT NULL,
  instruction_hash TEXT NOT NULL,
  result TEXT CHECK (result IN ('accepted', 'ok', 'timeout', 'error')),
  notes TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX dispatches_by_assignment ON dispatches (assignment_id, at);

CREATE TABLE actions (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  payload TEXT NOT NULL DEFAULT '{}',
  state TEXT NOT NULL CHECK (state IN ('planned', 'running', 'done', 'failed', 'unknown')),
  owner TEXT,
  outcome TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  version INTEGER NOT NULL DEFAULT 1,
  CHECK ((state = 'running') = (owner IS NOT NULL))
) WITHOUT ROWID;
CREATE INDEX open_actions ON actions (created_at) WHERE state IN ('planned', 'running');

CREATE TABLE events (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  type TEXT NOT NULL,
  agent TEXT,
  session_id TEXT,
  task_id TEXT,
  action_id TEXT,
  data TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX events_by_agent ON events (agent, seq);
CREATE INDEX events_by_type ON events (type, seq);
CREATE INDEX events_by_time ON events (at);

CREATE TABLE merge_entries (
  id TEXT PRIMARY KEY,
  branch TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  into_ref TEXT NOT NULL,
  task_id TEXT,
  session_id TEXT,
  files TEXT NOT NULL DEFAULT '[]',
  priority TEXT NOT NULL DEFAULT 'normal' CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
  status TEXT NOT NULL CHECK (
    status IN ('pending', 'merging', 'verifying', 'ready', 'merged', 'waiting', 'held', 'conflict', 'failed', 'aborted')
  ),
  tier TEXT CHECK (tier IN ('clean-merge', 'auto-resolve', 'ai-resolve', 'reimagine')),
  commit_before TEXT,
  commit_after TEXT,
  conflict_files TEXT NOT NULL DEFAULT '[]',
  error TEXT,
  journal TEXT NOT NULL DEFAULT '{}',
  enqueued_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  version INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE INDEX merge_entries_by_status ON merge_entries (status, enqueued_at);

CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE usage (
  message_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  PRIMARY KEY (message_id, request_id)
) WITHOUT ROWID;
CREATE INDEX usage_by_session ON usage (session_id);

CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL,
  at INTEGER NOT NULL
) WITHOUT ROWID;
`,
    `
DROP TABLE usage;
CREATE TABLE usage (
  session_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  at INTEGER,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_5m_tokens INTEGER NOT NULL,
  cache_write_1h_tokens INTEGER NOT NULL,
  cost REAL,
  PRIMARY KEY (session_id, message_id, request_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX usage_once ON usage (message_id, request_id);

CREATE TABLE transcripts (
  path TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  read_to INTEGER NOT NULL,
  read_at INTEGER NOT NULL,
  damaged INTEGER NOT NULL,
  is_cut_off INTEGER NOT NULL CHECK (is_cut_off IN (0, 1))
) WITHOUT ROWID;
CREATE INDEX transcripts_by_session ON transcripts (session_id);
`,
  ],
};
