import type { Action, ActionState, Actions, Leases, ProcessMark } from "../contract.ts";
import type { Connection } from "./connection.ts";
import { insertEvent } from "./events.ts";

interface ActionRow {
  id: string;
  kind: string;
  subject: string;
  payload: string;
  state: ActionState;
  owner: ProcessMark | null;
  outcome: string | null;
  created_at: number;
  updated_at: number;
}

const SELECT =
  "SELECT id, kind, subject, payload, state, owner, outcome, created_at, updated_at FROM actions";

export function actionsIn(connection: Connection): Actions {
  return {
    async planAction(action, event) {
      connection.write(() => {
        const planned = { ...action, state: "planned" as const, owner: null, at: event.at };
        if (insertAction(connection, planned)) insertEvent(connection, event);
      });
    },

    async findAction(id) {
      const row = connection.first<ActionRow>(`${SELECT} WHERE id = ?`, id);
      return row && toAction(row);
    },

    async openActions(kind) {
      const sql = `${SELECT} WHERE state IN ('planned', 'running') AND kind = ? ORDER BY created_at`;
      return connection.all<ActionRow>(sql, kind).map(toAction);
    },

    async pastActions(kind, limit) {
      const sql = `${SELECT} WHERE state NOT IN ('planned', 'running') AND kind = ? ORDER BY updated_at DESC LIMIT ?`;
      return connection.all<ActionRow>(sql, kind, limit).map(toAction);
    },

    async takeAction(id, from, owner, at) {
      return connection.write(() => {
        const changes = connection.run(
          `UPDATE actions SET state = 'running', owner = ?, updated_at = ?, version = version + 1
           WHERE id = ? AND state IN ('planned', 'running') AND owner IS ?`,
          owner,
          at,
          id,
          from,
        );
        return changes > 0;
      });
    },

    async noteAction(id, payload, at) {
      connection.write(() =>
        connection.run(
          "UPDATE actions SET payload = json_patch(payload, ?), updated_at = ? WHERE id = ?",
          JSON.stringify(payload),
          at,
          id,
        ),
      );
    },

    async endAction(id, state, outcome, at) {
      connection.write(() =>
        connection.run(
          `UPDATE actions SET state = ?, owner = NULL, outcome = ?, updated_at = ?, version = version + 1
           WHERE id = ? AND state IN ('planned', 'running')`,
          state,
          outcome,
          at,
          id,
        ),
      );
    },
  };
}

type InsertedAction = Pick<Action, "id" | "kind" | "subject" | "payload" | "state" | "owner"> & {
  at: number;
};

/** False when there is one of that id. */
export function insertAction(connection: Connection, action: InsertedAction): boolean {
  const changes = connection.run(
    `INSERT OR IGNORE INTO actions (id, kind, subject, payload, state, owner, created_at, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    action.id,
    action.kind,
    action.subject,
    JSON.stringify(action.payload),
    action.state,
    action.owner,
    action.at,
    action.at,
  );
  return changes > 0;
}

function toAction(row: ActionRow): Action {
  const { payload, created_at: createdAt, updated_at: updatedAt, ...rest } = row;
  return { ...rest, payload: JSON.parse(payload), createdAt, updatedAt };
}

export function leasesIn(connection: Connection): Leases {
  return {
    async takeLease(name, holder, dead, expiresAt) {
      return connection.write(() => {
        const held = connection.first<{ holder: string }>("SELECT holder FROM leases WHERE name = ?", name);
        if (held && held.holder !== holder && held.holder !== dead) return held.holder;
        connection.run(
          "INSERT OR REPLACE INTO leases (name, holder, expires_at) VALUES (?, ?, ?)",
          name,
          holder,
          expiresAt,
        );
        return null;
      });
    },

    async dropLease(name, holder) {
      connection.write(() =>
        connection.run("DELETE FROM leases WHERE name = ? AND holder = ?", name, holder),
      );
    },

    async takeTurn(name, everyMs, at) {
      return connection.write(() => {
        const last = connection.first<{ at: number }>("SELECT at FROM facts WHERE name = ?", `turn:${name}`);
        const turn = Math.max(at, (last?.at ?? 0) + everyMs);
        connection.run(
          "INSERT OR REPLACE INTO facts (name, value, at) VALUES (?, '', ?)",
          `turn:${name}`,
          turn,
        );
        return turn - at;
      });
    },
  };
}
