import type { Schema } from "./connection.ts";

/** The mail, `mail.db`. The partial indexes are what a hook looks at: an inbox of any size costs it the same. */
export const MAIL_SCHEMA: Schema = {
  migrations: [
    `
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  sender TEXT NOT NULL,
  recipient TEXT NOT NULL,
  recipient_session TEXT,
  subject TEXT NOT NULL,
  body TEXT NOT NULL,
  type TEXT NOT NULL CHECK (
    type IN ('status', 'question', 'result', 'error', 'dispatch', 'nudge', 'steer', 'sync', 'escalation')
  ),
  priority TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
  is_pressing INTEGER NOT NULL CHECK (is_pressing IN (0, 1)),
  thread_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  claimed_by TEXT,
  claim_session TEXT,
  claimed_at INTEGER,
  read_at INTEGER,
  CHECK ((claimed_by IS NULL) = (claimed_at IS NULL))
);
CREATE INDEX unread ON messages (recipient, claimed_by, seq) WHERE read_at IS NULL;
CREATE INDEX pressing ON messages (recipient, seq) WHERE read_at IS NULL AND claimed_by IS NULL AND is_pressing = 1;
CREATE INDEX messages_by_recipient ON messages (recipient, seq);
CREATE INDEX messages_by_sender ON messages (sender, seq);
CREATE INDEX messages_by_thread ON messages (thread_id, seq);
`,
  ],
};
