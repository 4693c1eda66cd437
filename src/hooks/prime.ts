import { ORCHESTRATOR } from "../domain/names.ts";
import { renderPrime } from "../domain/prime.ts";
import { type Paths, pathsOf } from "../effects/paths.ts";
import type { Ledger, Session } from "../store/contract.ts";
import { primeFacts } from "../store/prime-facts.ts";
import { FOR_A_HOOK } from "../store/sqlite/connection.ts";
import { openLedger } from "../store/sqlite/ledger.ts";
import { openMail } from "../store/sqlite/mail.ts";
import { type HookCall, isForThisSession } from "./handle.ts";
import { record } from "./record.ts";

/** Tells a session that begins, resumes or was compacted who it is and what there is to do. */
export async function handleSessionStart(call: HookCall): Promise<void> {
  const paths = pathsOf(call.root);
  const ledger = openLedger(paths.ledger, FOR_A_HOOK);
  try {
    const recorded = await record(call, paths, ledger);
    if (isForThisSession(call, recorded)) await prime(call, paths, ledger, recorded?.session ?? null);
  } finally {
    ledger.close();
  }
}

async function prime(call: HookCall, paths: Paths, ledger: Ledger, session: Session | null): Promise<void> {
  const mail = openMail(paths.mail, FOR_A_HOOK);
  try {
    const hasPast = session?.name === ORCHESTRATOR || call.payload.source !== "startup";
    const whom = { name: session?.name ?? ORCHESTRATOR, session, hasPast };
    const facts = await primeFacts(ledger, mail, whom, call.now);
    call.print(`${renderPrime(facts, call.payload.source === "compact")}\n`);
  } finally {
    mail.close();
  }
}
