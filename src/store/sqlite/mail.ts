import { isPressing, type Message, type MessageType, planInjection } from "../../domain/mail.ts";
import type { Priority } from "../../domain/task.ts";
import type { Claimant, ClaimRequest, MailFilter, MailStore, NewMessage } from "../mail-contract.ts";
import { type Bindings, Connection, type OpenOptions } from "./connection.ts";
import { MAIL_SCHEMA } from "./mail-schema.ts";

interface MessageRow {
  id: string;
  sender: string;
  recipient: string;
  subject: string;
  body: string;
  type: MessageType;
  priority: Priority;
  thread_id: string;
  created_at: number;
  read_at: number | null;
}

const COLUMNS = "id, sender, recipient, subject, body, type, priority, thread_id, created_at, read_at";
const IS_FREE = "recipient = ? AND read_at IS NULL AND claimed_by IS NULL";
const IS_CLAIMED = "recipient = ? AND read_at IS NULL AND claimed_by IS NOT NULL";
/** More than ever fits into one injection. */
const CANDIDATES = 100;

export function openMail(file: string, options: OpenOptions): MailStore {
  const connection = Connection.open(file, MAIL_SCHEMA, options);
  return {
    async send(messages) {
      connection.write(() => {
        for (const message of messages) insertMessage(connection, message, null);
      });
    },

    async glance(recipient) {
      const seen = connection.first<{ unread: number; pressing: number; claimed: number }>(
        `SELECT EXISTS (SELECT 1 FROM messages WHERE ${IS_FREE}) AS unread,
           EXISTS (SELECT 1 FROM messages WHERE ${IS_FREE} AND is_pressing = 1) AS pressing,
           EXISTS (SELECT 1 FROM messages WHERE ${IS_CLAIMED}) AS claimed`,
        recipient,
        recipient,
        recipient,
      );
      return {
        hasUnread: seen?.unread === 1,
        hasPressing: seen?.pressing === 1,
        claims: seen?.claimed === 1 ? claimants(connection, recipient) : [],
      };
    },

    async claim(request) {
      return connection.write(() => claim(connection, request));
    },

    async handOver(ids, from, to) {
      connection.write(() => {
        for (const id of ids) {
          connection.run(
            "UPDATE messages SET claimed_by = ?, claim_session = ? WHERE id = ? AND claimed_by = ? AND read_at IS NULL",
            to.process,
            to.claudeSessionId,
            id,
            from,
          );
        }
      });
    },

    async acknowledge(recipient, claimant, at, hasArrived = () => true) {
      return connection.write(() => {
        const ids = claimedIds(connection, recipient, claimant).filter(hasArrived);
        markRead(connection, ids, at);
        return ids;
      });
    },

    async markRead(ids, at) {
      connection.write(() => markRead(connection, ids, at));
    },

    async release(recipient, claimant) {
      return connection.write(() => {
        const ids = claimedIds(connection, recipient, claimant);
        for (const id of ids) {
          connection.run(
            `UPDATE messages SET claimed_by = NULL, claim_session = NULL, claimed_at = NULL
             WHERE id = ? AND read_at IS NULL`,
            id,
          );
        }
        return ids;
      });
    },

    async findMessage(id) {
      const row = connection.first<MessageRow>(`SELECT ${COLUMNS} FROM messages WHERE id = ?`, id);
      return row && toMessage(row);
    },

    async listMessages(filter) {
      return list(connection, filter);
    },

    async unreadCounts() {
      const rows = connection.all<{ recipient: string; n: number }>(
        "SELECT recipient, count(*) AS n FROM messages WHERE read_at IS NULL GROUP BY recipient",
      );
      return new Map(rows.map((row) => [row.recipient, row.n]));
    },

    async restore(messages) {
      return connection.write(() => {
        let restored = 0;
        for (const message of messages) restored += insertMessage(connection, message, message.readAt);
        return restored;
      });
    },

    async check() {
      return connection.check();
    },

    close() {
      connection.close();
    },
  };
}

function insertMessage(connection: Connection, message: NewMessage, readAt: number | null): number {
  return connection.run(
    // Not OR IGNORE: that would also lose, in silence, a message that breaks any other rule of the table.
    `INSERT INTO messages (id, sender, recipient, subject, body, type, priority, is_pressing, thread_id, created_at,
       read_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
    message.id,
    message.from,
    message.to,
    message.subject,
    message.body,
    message.type,
    message.priority,
    isPressing(message) ? 1 : 0,
    message.threadId,
    message.createdAt,
    readAt,
  );
}

function claim(connection: Connection, request: ClaimRequest) {
  const candidates = free(connection, request);
  const { unread } = connection.first<{ unread: number }>(
    `SELECT count(*) AS unread FROM messages WHERE ${IS_FREE}`,
    request.recipient,
  ) ?? { unread: candidates.length };
  const injection = planInjection(candidates, unread - candidates.length, request.maxLength);
  for (const message of injection.included) {
    connection.run(
      "UPDATE messages SET claimed_by = ?, claim_session = ?, claimed_at = ? WHERE id = ?",
      request.claimant.process,
      request.claimant.claudeSessionId,
      request.at,
      message.id,
    );
  }
  return injection;
}

/** In order. Of pressing mail also what its senders wrote before it, so that the order within a sender is kept. */
function free(connection: Connection, request: ClaimRequest): Message[] {
  const { recipient } = request;
  const rows = request.pressingOnly
    ? connection.all<MessageRow>(
        `WITH newest AS (
           SELECT sender AS presser, max(seq) AS last FROM messages WHERE ${IS_FREE} AND is_pressing = 1 GROUP BY sender
         )
         SELECT ${COLUMNS} FROM messages JOIN newest ON presser = sender AND seq <= last
         WHERE ${IS_FREE} ORDER BY seq LIMIT ${CANDIDATES}`,
        recipient,
        recipient,
      )
    : connection.all<MessageRow>(
        `SELECT ${COLUMNS} FROM messages WHERE ${IS_FREE} ORDER BY seq LIMIT ${CANDIDATES}`,
        recipient,
      );
  return rows.map(toMessage);
}

function claimants(connection: Connection, recipient: string): Claimant[] {
  return connection.all<Claimant>(
    `SELECT DISTINCT claimed_by AS process, claim_session AS claudeSessionId FROM messages WHERE ${IS_CLAIMED}`,
    recipient,
  );
}

function claimedIds(connection: Connection, recipient: string, claimant: Partial<Claimant>): string[] {
  const rows = connection.all<{ id: string }>(
    `SELECT id FROM messages WHERE ${IS_CLAIMED} AND claimed_by = coalesce(?, claimed_by)
       AND (? IS NULL OR claim_session = ?) ORDER BY seq`,
    recipient,
    claimant.process ?? null,
    claimant.claudeSessionId ?? null,
    claimant.claudeSessionId ?? null,
  );
  return rows.map((row) => row.id);
}

function markRead(connection: Connection, ids: readonly string[], at: number): void {
  for (const id of ids)
    connection.run("UPDATE messages SET read_at = ? WHERE id = ? AND read_at IS NULL", at, id);
}

function list(connection: Connection, filter: MailFilter): Message[] {
  const wanted: [string, Bindings | undefined][] = [
    ["sender = ?", filter.from],
    ["recipient = ?", filter.to],
    ["thread_id = ?", filter.threadId],
    ["? IN (sender, recipient)", filter.party],
  ];
  const given = wanted.filter((pair): pair is [string, Bindings] => pair[1] !== undefined);
  const conditions = given.map(([condition]) => condition);
  if (filter.isUnread) conditions.push("read_at IS NULL");
  const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
  const rows = connection.all<MessageRow>(
    `SELECT ${COLUMNS} FROM messages ${where} ORDER BY seq DESC LIMIT ?`,
    ...given.map(([, value]) => value),
    filter.limit,
  );
  return rows.reverse().map(toMessage);
}

function toMessage(row: MessageRow): Message {
  return {
    id: row.id,
    from: row.sender,
    to: row.recipient,
    subject: row.subject,
    body: row.body,
    type: row.type,
    priority: row.priority,
    threadId: row.thread_id,
    createdAt: row.created_at,
    read: row.read_at !== null,
  };
}
