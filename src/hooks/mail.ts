import type { HookEvent } from "../domain/hook-event.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { readCompiled } from "../effects/compiled.ts";
import { appendEvent } from "../effects/logs.ts";
import type { Paths } from "../effects/paths.ts";
import { forgetKnocks, knock } from "../effects/waiters.ts";
import type { Activity } from "../store/contract.ts";
import type { MailStore } from "../store/mail-contract.ts";
import { FOR_A_HOOK } from "../store/sqlite/connection.ts";
import { openMail } from "../store/sqlite/mail.ts";
import { type Delivered, type Delivery, deliver, type Proof } from "./deliver.ts";
import type { HookCall } from "./handle.ts";
import { orchestratorKey, type RecordedTurn, withLedger } from "./record.ts";
import { mailEvents } from "./session-log.ts";

/** When each event shows mail. SessionStart shows none: the next prompt would acknowledge it before any model saw it. */
const DELIVERIES: Readonly<Partial<Record<HookEvent, Delivery>>> = {
  UserPromptSubmit: "all",
  PreToolUse: "none",
  PostToolUse: "pressing",
  PostToolUseFailure: "pressing",
  PermissionRequest: "none",
  Stop: "all",
  StopFailure: "none",
  PreCompact: "none",
};
/** The end of a turn comes only after a model's answer; a prompt also after a turn that was interrupted. */
const PROOFS: Readonly<Partial<Record<HookEvent, Proof>>> = { Stop: "event", UserPromptSubmit: "answered" };
/** Claude Code lets a turn end at the ninth block in a row, whoever blocked: what was shown then reaches nobody. */
const BLOCKS_IN_A_ROW = 5;

/** Shows the mail that is due; true when that gives the session another turn. */
export async function bringMail(
  call: HookCall,
  paths: Paths,
  recorded: RecordedTurn | null,
): Promise<boolean> {
  const recipient = recorded?.session.name ?? ORCHESTRATOR;
  if (call.event === "UserPromptSubmit") await forgetKnocks(paths, call.claudePid);
  const mail = openMail(paths.mail, FOR_A_HOOK);
  try {
    const delivered = await handleMail(call, paths, mail, recipient, recorded?.mailTurns ?? 0);
    if (delivered.shown.length > 0) return true;
    return delivered.isLeft && recorded?.session.state === "idle" && wakeLater(call, paths);
  } finally {
    mail.close();
  }
}

/** A turn that failed, or one more that may not be held up, ends with mail unread: the waiter begins the next. */
function wakeLater({ event, claudePid }: HookCall, paths: Paths): boolean {
  if ((event !== "Stop" && event !== "StopFailure") || !readCompiled(paths).isWaking) return false;
  return knock(paths, claudePid);
}

async function handleMail(
  call: HookCall,
  paths: Paths,
  mail: MailStore,
  recipient: string,
  mailTurns: number,
): Promise<Delivered> {
  const { claudeSessionId } = call.payload;
  const nothing: Delivered = { shown: [], acknowledged: [], released: [], isLeft: false };
  if (claudeSessionId === null) return nothing;
  if (call.event === "SessionEnd") {
    const released = await releaseAll(mail, recipient, claudeSessionId);
    await tellMail(call, paths, recipient, { ...nothing, released });
  }
  const delivery = mailTurns < BLOCKS_IN_A_ROW ? DELIVERIES[call.event] : "none";
  if (delivery === undefined) return nothing;
  const { claudePid, now } = call;
  const { transcriptPath } = call.payload;
  const proof = PROOFS[call.event] ?? "written";
  const door = { mail, recipient, claudeSessionId, claudePid, transcriptPath, proof, now };
  const delivered = await deliver(door, delivery, (text) => call.print(wrap(call.event, text)));
  await tellMail(call, paths, recipient, delivered);
  return delivered;
}

/** Mail shown at the end of a turn begins another one. */
async function tellMail(
  call: HookCall,
  paths: Paths,
  recipient: string,
  delivered: Delivered,
): Promise<void> {
  const events = mailEvents(recipient, call.now, delivered);
  if (events.length === 0) return;
  for (const event of events) appendEvent(paths.journal, event);
  await withLedger(paths, async (ledger) => {
    await ledger.appendEvents(events);
    const key = call.worker ?? (await orchestratorKey(ledger, call));
    if (key && call.event === "Stop" && delivered.shown.length > 0)
      await ledger.recordActivity(key, wakening(call));
  });
}

function wakening(call: HookCall): Activity {
  return { at: call.now, signal: { kind: "active" }, event: "session.prompted", data: { by: "mail" } };
}

async function releaseAll(mail: MailStore, recipient: string, claudeSessionId: string): Promise<string[]> {
  const { claims } = await mail.glance(recipient);
  const isHolding = claims.some((claim) => claim.claudeSessionId === claudeSessionId);
  return isHolding ? await mail.release(recipient, { claudeSessionId }) : [];
}

/** How each event's output reaches the model. */
function wrap(event: HookEvent, text: string): string {
  switch (event) {
    case "PostToolUse":
    case "PostToolUseFailure":
      return JSON.stringify({ hookSpecificOutput: { hookEventName: event, additionalContext: text } });
    case "Stop":
      return JSON.stringify({ decision: "block", reason: text });
    default:
      return `${text}\n`;
  }
}
