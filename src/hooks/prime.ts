import { ORCHESTRATOR } from "../domain/names.ts";
import { renderPrime } from "../domain/prime.ts";
import type { Paths } from "../effects/paths.ts";
import type { Recorded } from "../store/contract.ts";
import { primeFacts } from "../store/prime-facts.ts";
import { openLedger } from "../store/sqlite/ledger.ts";
import { openMail } from "../store/sqlite/mail.ts";
import type { HookCall } from "./handle.ts";

/** Tells a session that begins, resumes or was compacted who it is and what there is to do. */
export async function printPrime(call: HookCall, paths: Paths, recorded: Recorded | null): Promise<void> {
  const session = recorded?.session ?? null;
  const ledger = openLedger(paths.ledger, { mayUpgrade: false });
  const mail = openMail(paths.mail, { mayUpgrade: false });
  try {
    const facts = await primeFacts(ledger, mail, { name: session?.name ?? ORCHESTRATOR, session }, call.now);
    call.print(`${renderPrime(facts, call.payload.source === "compact")}\n`);
  } finally {
    ledger.close();
    mail.close();
  }
}
