import type { Events, Sessions } from "../contract.ts";
import { Connection, FOR_A_HOOK } from "./connection.ts";
import { insertEvent } from "./events.ts";
import { LEDGER_SCHEMA } from "./ledger-schema.ts";
import { sessionsIn } from "./sessions.ts";

export type HookLedger = Sessions & Pick<Events, "appendEvents"> & { close(): void };

/** The part of the ledger that a hook needs on every tool call, without the code of the rest. */
export function openHookLedger(file: string): HookLedger {
  const connection = Connection.open(file, LEDGER_SCHEMA, FOR_A_HOOK);
  return {
    ...sessionsIn(connection),
    async appendEvents(events) {
      connection.write(() => {
        for (const event of events) insertEvent(connection, event);
      });
    },
    close: () => connection.close(),
  };
}
