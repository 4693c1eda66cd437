import type { Denial } from "../domain/guard-facts.ts";
import { type HookEvent, toHookEvent } from "../domain/hook-event.ts";
import { type HookPayload, readPayload } from "../domain/hook-payload.ts";
import { mayHaveClosed } from "../domain/tool-call.ts";
import { pathsOf } from "../effects/paths.ts";
import type { Recorded, Session, SessionKey } from "../store/contract.ts";
import { bringMail } from "./mail.ts";
import { recordTurn, withLedger } from "./record.ts";

/** One ring of the doorbell. */
export interface HookCall {
  event: HookEvent;
  root: string;
  /** The worker's key, or null for the orchestrator, who is known by its Claude session. */
  worker: SessionKey | null;
  /** The worker's name, by which its rules are found. */
  agent: string | null;
  env: Readonly<Record<string, string | undefined>>;
  payload: HookPayload;
  claudePid: number;
  now: number;
  print(text: string): void;
  /** Starts `overseer finish`, detached: what a worker's completion takes. */
  finish(name: string, ...options: string[]): Promise<void>;
}

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

/** Every event but SessionStart; of a tool call that was denied, with the denial. */
export async function handleHook(call: HookCall, denial: Denial | null = null): Promise<void> {
  const paths = pathsOf(call.root);
  const isRecorded = call.worker !== null || ORCHESTRATOR_RECORDS.includes(call.event);
  const recorded = isRecorded
    ? await withLedger(paths, (ledger) => recordTurn(call, paths, ledger, denial))
    : null;
  if (recorded?.isCurrent) await noticeClosing(call, recorded.session);
  if (!isForThisSession(call, recorded)) return;
  const hasMore = await bringMail(call, paths, recorded);
  // Mail at the end of its turn gives it another one.
  if (recorded?.isCompleting && !hasMore) await call.finish(recorded.session.name);
}

/** `bd close` of its own task says what `overseer task close` says. Whether it did that, takes more than a hook's time. */
async function noticeClosing(call: HookCall, { name, taskId }: Session): Promise<void> {
  if (call.event !== "PostToolUse" || taskId === null) return;
  if (mayHaveClosed(call.payload, taskId)) await call.finish(name, "--if-closed");
}

/** Not for a late hook of an older incarnation, nor for a subagent: what they were shown would reach nobody. */
export function isForThisSession(call: HookCall, recorded: Recorded | null): boolean {
  return call.payload.subagentId === null && (call.worker === null || recorded?.isCurrent === true);
}
