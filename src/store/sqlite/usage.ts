import { NO_USAGE, type Usage } from "../../domain/usage.ts";
import type { CountedAnswer, NamedTranscript, TranscriptMark, UsageRecords } from "../usage-contract.ts";
import type { Connection } from "./connection.ts";
import { COLUMNS, LIVE, type SessionRow, toSession } from "./sessions.ts";

export function usageIn(connection: Connection): UsageRecords {
  return {
    async recordUsage(answers, marks) {
      connection.write(() => {
        for (const answer of answers) upsertAnswer(connection, answer);
        for (const mark of marks) upsertMark(connection, mark);
      });
    },

    async recordedUsage(sessionIds) {
      const rows = connection.all<SumRow>(
        `SELECT session_id, count(*) AS answers, count(cost) AS priced, coalesce(sum(cost), 0) AS cost,
           sum(input_tokens) AS input, sum(output_tokens) AS output, sum(cache_read_tokens) AS cache_read,
           sum(cache_write_5m_tokens) AS cache_write_5m, sum(cache_write_1h_tokens) AS cache_write_1h,
           json_group_array(DISTINCT model) FILTER (WHERE cost IS NULL) AS unpriced
         FROM usage WHERE session_id IN (SELECT value FROM json_each(?)) GROUP BY session_id`,
        JSON.stringify(sessionIds),
      );
      const sums = new Map<string, Usage>(sessionIds.map((id) => [id, NO_USAGE]));
      for (const row of rows) sums.set(row.session_id, toUsage(row));
      return sums;
    },

    async countedAnswers(answers) {
      const sql = `SELECT session_id, message_id, request_id, at, model, input_tokens, output_tokens, cache_read_tokens,
        cache_write_5m_tokens, cache_write_1h_tokens, cost FROM usage WHERE message_id = ? AND request_id = ?`;
      return answers.flatMap(({ messageId, requestId }) => {
        const row = connection.first<AnswerRow>(sql, messageId, requestId);
        return row ? [toAnswer(row)] : [];
      });
    },

    async transcriptMarks(of) {
      const [column, values] = "paths" in of ? ["path", of.paths] : ["session_id", of.sessionIds];
      const rows = connection.all<MarkRow>(
        `SELECT path, session_id, read_to, read_at, damaged, is_cut_off FROM transcripts
         WHERE ${column} IN (SELECT value FROM json_each(?))`,
        JSON.stringify(values),
      );
      return rows.map(toMark);
    },

    async transcriptsOf(names) {
      // The plus keeps SQLite from walking through everything that the agents have done.
      return connection.all<NamedTranscript>(
        `SELECT id AS sessionId, started_at AS startedAt, transcript_path AS path FROM sessions
         WHERE name IN (SELECT value FROM json_each(?1)) AND transcript_path IS NOT NULL
         UNION SELECT sessions.id, started_at, data ->> 'transcript' FROM events
         JOIN sessions ON sessions.id = events.session_id
         WHERE type = 'session.started' AND +agent IN (SELECT value FROM json_each(?1))
           AND data ->> 'transcript' IS NOT NULL`,
        JSON.stringify(names),
      );
    },

    async uncountedSessions() {
      const rows = connection.all<SessionRow>(
        `SELECT ${COLUMNS} FROM sessions WHERE state NOT IN ${LIVE} AND transcript_path IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM transcripts
             WHERE path = sessions.transcript_path AND read_at >= sessions.last_activity_at) ORDER BY seq`,
      );
      return rows.map(toSession);
    },

    async latestSessions(limit) {
      const sql = `SELECT ${COLUMNS} FROM sessions ORDER BY seq DESC LIMIT ?`;
      return connection.all<SessionRow>(sql, limit).reverse().map(toSession);
    },
  };
}

function upsertAnswer(connection: Connection, { tokens, ...answer }: CountedAnswer): void {
  connection.run(
    `INSERT INTO usage (session_id, message_id, request_id, at, model, input_tokens, output_tokens, cache_read_tokens,
       cache_write_5m_tokens, cache_write_1h_tokens, cost) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (message_id, request_id) DO UPDATE SET input_tokens = excluded.input_tokens,
       output_tokens = excluded.output_tokens, cache_read_tokens = excluded.cache_read_tokens,
       cache_write_5m_tokens = excluded.cache_write_5m_tokens, cache_write_1h_tokens = excluded.cache_write_1h_tokens,
       cost = excluded.cost WHERE excluded.output_tokens >= usage.output_tokens`,
    answer.sessionId,
    answer.messageId,
    answer.requestId,
    answer.at,
    answer.model,
    tokens.input,
    tokens.output,
    tokens.cacheRead,
    tokens.cacheWrite5m,
    tokens.cacheWrite1h,
    answer.cost,
  );
}

function upsertMark(connection: Connection, mark: TranscriptMark): void {
  connection.run(
    `INSERT INTO transcripts (path, session_id, read_to, read_at, damaged, is_cut_off) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (path) DO UPDATE SET session_id = excluded.session_id, read_to = excluded.read_to,
       read_at = excluded.read_at, damaged = excluded.damaged, is_cut_off = excluded.is_cut_off`,
    mark.path,
    mark.sessionId,
    mark.readTo,
    mark.readAt,
    mark.damaged,
    mark.isCutOff ? 1 : 0,
  );
}

interface MarkRow {
  path: string;
  session_id: string;
  read_to: number;
  read_at: number;
  damaged: number;
  is_cut_off: number;
}

function toMark(row: MarkRow): TranscriptMark {
  const { path, session_id: sessionId, read_to: readTo, read_at: readAt, damaged } = row;
  return { path, sessionId, readTo, readAt, damaged, isCutOff: row.is_cut_off === 1 };
}

interface SumRow {
  session_id: string;
  answers: number;
  priced: number;
  cost: number;
  input: number;
  output: number;
  cache_read: number;
  cache_write_5m: number;
  cache_write_1h: number;
  unpriced: string;
}

function toUsage(row: SumRow): Usage {
  const { answers, priced, cost, input, output } = row;
  return {
    answers,
    tokens: {
      input,
      output,
      cacheRead: row.cache_read,
      cacheWrite5m: row.cache_write_5m,
      cacheWrite1h: row.cache_write_1h,
    },
    cost,
    unpriced: JSON.parse(row.unpriced),
    priced,
  };
}

interface AnswerRow {
  session_id: string;
  message_id: string;
  request_id: string;
  at: number | null;
  model: string;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_5m_tokens: number;
  cache_write_1h_tokens: number;
  cost: number | null;
}

function toAnswer(row: AnswerRow): CountedAnswer {
  return {
    sessionId: row.session_id,
    messageId: row.message_id,
    requestId: row.request_id,
    at: row.at,
    model: row.model,
    tokens: {
      input: row.input_tokens,
      output: row.output_tokens,
      cacheRead: row.cache_read_tokens,
      cacheWrite5m: row.cache_write_5m_tokens,
      cacheWrite1h: row.cache_write_1h_tokens,
    },
    cost: row.cost,
  };
}
