import type { Sessions } from "../contract.ts";
import { Connection, FOR_A_HOOK } from "./connection.ts";
import { LEDGER_SCHEMA } from "./ledger-schema.ts";
import { sessionsIn } from "./sessions.ts";

/** The part of the ledger that a hook needs on every tool call, without the code of the rest. */
export function openSessions(file: string): Sessions & { close(): void } {
  const connection = Connection.open(file, LEDGER_SCHEMA, FOR_A_HOOK);
  return { ...sessionsIn(connection), close: () => connection.close() };
}
