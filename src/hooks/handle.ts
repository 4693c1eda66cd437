import { type HookEvent, interpret, type Meaning, toHookEvent } from "../domain/hook-event.ts";
import { type HookPayload, readPayload } from "../domain/hook-payload.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { readCompiled } from "../effects/compiled.ts";
import { appendEvent } from "../effects/logs.ts";
import { type Paths, pathsOf, sessionLogFolder } from "../effects/paths.ts";
import type { Activity, MailStore, Recorded, SessionKey, Sessions } from "../store/contract.ts";
import { FOR_A_HOOK } from "../store/sqlite/connection.ts";
import { type HookLedger, openHookLedger } from "../store/sqlite/hook-ledger.ts";
import { openMail } from "../store/sqlite/mail.ts";
import { type Delivered, type Delivery, deliver } from "./deliver.ts";
import { mailEvents, writeSessionLogs } from "./session-log.ts";

/** One ring of the doorbell. */
export interface HookCall {
  event: HookEvent;
  root: string;
  /** The worker's key, or null for the orchestrator, who is known by its Claude session. */
  worker: SessionKey | null;
  payload: HookPayload;
  claudePid: number;
  now: number;
  print(text: string): void;
  /** Starts, detached, what a worker's completion takes. */
  finish(name: string): Promise<void>;
}

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
/** After which a worker that has announced its completion has nothing more to do. */
const TURN_ENDS: readonly HookEvent[] = ["Stop", "StopFailure", "SessionEnd"];
/** They come only after a model's answer, so that whatever was printed before has reached a model. */
const PROOFS: readonly HookEvent[] = ["UserPromptSubmit", "Stop"];
/** The orchestrator is the person's own session: its turns are recorded, what it does in them is not. */
const ORCHESTRATOR_RECORDS: readonly HookEvent[] = [
  "SessionStart",
  "UserPromptSubmit",
  "Stop",
  "StopFailure",
  "SessionEnd",
];

export function parseCall(eventName: string, text: string): { event: HookEvent; payload: HookPayload } {
  const event = toHookEvent(eventName);
  if (!event) throw new Error(`unknown hook event ${JSON.stringify(eventName.slice(0, 60))}`);
  const payload = readPayload(text);
  if (!payload) throw new Error(`the payload of ${event} is not a JSON object (${text.length} characters)`);
  return { event, payload };
}

/** Every event but SessionStart. */
export async function handleHook(call: HookCall): Promise<void> {
  const paths = pathsOf(call.root);
  const isRecorded = call.worker !== null || ORCHESTRATOR_RECORDS.includes(call.event);
  let isCompleting = false;
  const recorded = !isRecorded
    ? null
    : await withLedger(paths, async (ledger) => {
        const now = await record(call, paths, ledger);
        const isEnding = now !== null && TURN_ENDS.includes(call.event);
        isCompleting = isEnding && (await ledger.isCompleting(now.session.id));
        return now;
      });
  if (!isForThisSession(call, recorded)) return;
  const name = recorded?.session.name ?? ORCHESTRATOR;
  const shown = await withMail(call, paths, name);
  // Mail at the end of its turn gives it another one.
  if (isCompleting && shown === 0) await call.finish(name);
}

async function withLedger<T>(paths: Paths, work: (ledger: HookLedger) => Promise<T>): Promise<T> {
  const ledger = openHookLedger(paths.ledger);
  try {
    return await work(ledger);
  } finally {
    ledger.close();
  }
}

/** How many messages were shown. */
async function withMail(call: HookCall, paths: Paths, recipient: string): Promise<number> {
  const mail = openMail(paths.mail, FOR_A_HOOK);
  try {
    return await handleMail(call, paths, mail, recipient);
  } finally {
    mail.close();
  }
}

/** Not for a late hook of an older incarnation, nor for a subagent: what they were shown would reach nobody. */
export function isForThisSession(call: HookCall, recorded: Recorded | null): boolean {
  return call.payload.subagentId === null && (call.worker === null || recorded?.isCurrent === true);
}

/** Activity, state, event and logs. Null when nobody has the key. */
export async function record(call: HookCall, paths: Paths, sessions: Sessions): Promise<Recorded | null> {
  const { isRedacting } = readCompiled(paths);
  const meaning = interpret(call.event, call.payload, isRedacting, call.now);
  const key = call.worker ?? (await orchestratorKey(sessions, call));
  const recorded = key && (await sessions.recordActivity(key, toActivity(call, meaning)));
  if (recorded) writeSessionLogs(paths, recorded.session, call.now, meaning);
  return recorded;
}

async function orchestratorKey(sessions: Sessions, call: HookCall): Promise<SessionKey | null> {
  const { claudeSessionId } = call.payload;
  if (claudeSessionId === null) return null;
  await sessions.ensureOrchestrator({
    id: `ses-${claudeSessionId}`,
    name: ORCHESTRATOR,
    capability: ORCHESTRATOR,
    tokenHash: null,
    startedAt: call.now,
    logFolder: sessionLogFolder(ORCHESTRATOR, call.now),
    claudeSessionId,
    pid: call.claudePid,
  });
  return { orchestrator: claudeSessionId };
}

function toActivity(call: HookCall, meaning: Meaning): Activity {
  const { claudeSessionId, transcriptPath } = call.payload;
  return {
    at: call.now,
    signal: meaning.signal,
    event: meaning.type,
    data: meaning.data,
    ...(claudeSessionId === null ? {} : { claudeSessionId }),
    ...(transcriptPath === null ? {} : { transcriptPath }),
    ...(meaning.tool === null ? {} : { tool: meaning.tool }),
  };
}

async function handleMail(call: HookCall, paths: Paths, mail: MailStore, recipient: string): Promise<number> {
  const { claudeSessionId } = call.payload;
  const delivery = DELIVERIES[call.event];
  if (claudeSessionId === null) return 0;
  if (call.event === "SessionEnd") {
    const released = await releaseAll(mail, recipient, claudeSessionId);
    await tellMail(call, paths, recipient, { shown: [], acknowledged: [], released });
  }
  if (delivery === undefined) return 0;
  const transcriptPath = PROOFS.includes(call.event) ? null : call.payload.transcriptPath;
  const door = { mail, recipient, claudeSessionId, claudePid: call.claudePid, transcriptPath, now: call.now };
  const delivered = await deliver(door, delivery, (text) => call.print(wrap(call.event, text)));
  await tellMail(call, paths, recipient, delivered);
  return delivered.shown.length;
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
