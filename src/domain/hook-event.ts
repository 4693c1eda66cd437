import type { EventType } from "./event.ts";
import type { Denial } from "./guard-facts.ts";
import type { HookPayload } from "./hook-payload.ts";
import { limitEnd } from "./rate-limit.ts";
import { cleanText } from "./redact.ts";
import type { SessionSignal } from "./session.ts";
import { describeToolCall, headline, type ToolCall } from "./tool-call.ts";

export const HOOK_EVENTS = [
  "SessionStart",
  "UserPromptSubmit",
  "PreToolUse",
  "PostToolUse",
  "PostToolUseFailure",
  "PermissionRequest",
  "Notification",
  "Stop",
  "StopFailure",
  "PreCompact",
  "SessionEnd",
] as const;
export type HookEvent = (typeof HOOK_EVENTS)[number];

/** The names under which `overseer log` takes the same events. */
export const LOG_NAMES: Readonly<Record<string, HookEvent>> = {
  "session-start": "SessionStart",
  prompt: "UserPromptSubmit",
  "tool-start": "PreToolUse",
  "tool-end": "PostToolUse",
  "tool-failed": "PostToolUseFailure",
  permission: "PermissionRequest",
  notification: "Notification",
  "turn-end": "Stop",
  "turn-failed": "StopFailure",
  "pre-compact": "PreCompact",
  "session-end": "SessionEnd",
};

export function toHookEvent(text: string): HookEvent | null {
  return isHookEvent(text) ? text : Object.hasOwn(LOG_NAMES, text) ? (LOG_NAMES[text] ?? null) : null;
}

function isHookEvent(text: string): text is HookEvent {
  return (HOOK_EVENTS as readonly string[]).includes(text);
}

/** What a hook event means for the ledger, the logs and the mail. */
export interface Meaning {
  type: EventType;
  signal: SessionSignal;
  data: Readonly<Record<string, unknown>>;
  tool: { phase: "started"; name: string } | { phase: "ended" } | null;
  call: ToolCall | null;
}

const TEXT_LENGTH = 1_000;

/** Whose event it is, and how it is read. */
export interface Reading {
  /** A worker begins with a prompt, a person's own session waits for one. */
  isWorker: boolean;
  isRedacting: boolean;
  now: number;
}

export function interpret(event: HookEvent, payload: HookPayload, reading: Reading): Meaning {
  const { isRedacting } = reading;
  const meaning = ofMainTurn(event, payload, reading);
  if (payload.subagentId === null) return meaning;
  const data = { ...meaning.data, subagent: cleanText(payload.subagentId, 100, isRedacting) };
  return { ...meaning, data, signal: { kind: "noticed" }, tool: null };
}

/** What is kept of a tool call that was denied: it never happened. */
export function ofDenial(wanted: Meaning, { rule, reason }: Denial, isRedacting: boolean): Meaning {
  const { tool, subagent } = wanted.data;
  const data = {
    rule,
    tool,
    target: wanted.call ? headline(wanted.call).slice(wanted.call.tool.length + 1) : null,
    reason: cleanText(reason, TEXT_LENGTH, isRedacting),
    ...(subagent === undefined ? {} : { subagent }),
  };
  return { ...wanted, type: "guard.denied", data, tool: null, call: null };
}

function ofMainTurn(event: HookEvent, payload: HookPayload, reading: Reading): Meaning {
  const { isWorker, isRedacting, now } = reading;
  const text = (value: string | null) => (value === null ? null : cleanText(value, TEXT_LENGTH, isRedacting));
  const plain = (type: EventType, signal: SessionSignal, data: Meaning["data"] = {}): Meaning => ({
    type,
    signal,
    data,
    tool: null,
    call: null,
  });
  switch (event) {
    case "SessionStart":
      return payload.source === "compact"
        ? plain("session.compacted", { kind: "compacted" })
        : plain(
            "session.started",
            { kind: "started", isIdle: !isWorker || payload.source === "clear" },
            { source: text(payload.source), transcript: text(payload.transcriptPath) },
          );
    case "UserPromptSubmit":
      return plain("session.prompted", { kind: "active" });
    case "PreToolUse": {
      const call = describeToolCall(payload, isRedacting);
      const tool = { phase: "started" as const, name: call.tool };
      const isAsking = call.tool === "AskUserQuestion";
      const signal: SessionSignal = isAsking ? { kind: "waiting", reason: "question" } : { kind: "active" };
      return { type: "session.tool_started", signal, data: started(call), tool, call };
    }
    case "PostToolUse":
    case "PostToolUseFailure": {
      const call = describeToolCall(payload, isRedacting);
      const type = event === "PostToolUse" ? "session.tool_finished" : "session.tool_failed";
      return { type, signal: { kind: "active" }, data: finished(call), tool: { phase: "ended" }, call };
    }
    case "PermissionRequest":
      return plain(
        "session.waiting",
        { kind: "waiting", reason: "permission" },
        { tool: text(payload.toolName) },
      );
    case "Notification":
      return plain("session.notified", notificationSignal(payload), { message: text(payload.message) });
    case "Stop":
      return plain(
        "session.turn_ended",
        { kind: "turn_ended", cause: "turn ended" },
        { message: text(payload.lastAssistantMessage) },
      );
    case "StopFailure":
      return plain("session.turn_failed", failureSignal(payload, now), {
        error: text(payload.error),
        message: text(payload.lastAssistantMessage),
      });
    case "PreCompact":
      return plain("session.compacting", { kind: "noticed" });
    case "SessionEnd":
      return plain(
        "session.ended",
        payload.reason === "clear"
          ? { kind: "noticed" }
          : { kind: "ended", cause: `ended: ${text(payload.reason)}` },
        { reason: text(payload.reason) },
      );
  }
}

function started(call: ToolCall): Meaning["data"] {
  return { tool: call.tool, input: call.input };
}

function finished(call: ToolCall): Meaning["data"] {
  const { tool, durationMs, result, error, files, git } = call;
  return { tool, durationMs, ...(error === null ? { result } : { error }), files, git };
}

function notificationSignal(payload: HookPayload): SessionSignal {
  switch (payload.notificationType) {
    case "permission_prompt":
      return { kind: "waiting", reason: "permission" };
    case "elicitation_dialog":
      return { kind: "waiting", reason: "question" };
    default:
      return { kind: "noticed" };
  }
}

function failureSignal(payload: HookPayload, now: number): SessionSignal {
  const error = `${payload.error ?? ""} ${payload.lastAssistantMessage ?? ""}`;
  if (/prompt is too long|context (?:window|length)|too many tokens/i.test(error)) {
    return { kind: "waiting", reason: "context_full" };
  }
  if (/rate.?limit|429|overloaded|529/i.test(error)) {
    return { kind: "waiting", reason: "rate_limit", until: limitEnd(error, now) };
  }
  return { kind: "turn_ended", cause: "the turn failed" };
}
