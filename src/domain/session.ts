import type { Moves } from "./machine.ts";

export const SESSION_STATES = [
  "booting",
  "working",
  "idle",
  "waiting",
  "stalled",
  "completed",
  "stopped",
  "failed",
  "zombie",
] as const;
export type SessionState = (typeof SESSION_STATES)[number];

export const WAITING_REASONS = ["permission", "question", "rate_limit", "context_full", "paused"] as const;
export type WaitingReason = (typeof WAITING_REASONS)[number];

const ENDS = ["completed", "stopped", "failed", "zombie"] as const;

/**
 * `stopped` and `zombie` were judged from outside: a SessionStart of that same incarnation proves them wrong, whoever said that
 * its task is done before it died has completed it all the same, and a spawn that is undone has failed.
 */
export const SESSION_MOVES: Moves<SessionState> = {
  booting: ["working", "idle", "waiting", "stalled", ...ENDS],
  working: ["idle", "waiting", "stalled", ...ENDS],
  idle: ["working", "waiting", "stalled", ...ENDS],
  waiting: ["working", "idle", "stalled", ...ENDS],
  stalled: ["working", "idle", "waiting", ...ENDS],
  completed: [],
  stopped: ["working", "idle", "completed", "failed"],
  failed: [],
  zombie: ["working", "idle", "completed", "failed"],
};

export function isLive(state: SessionState): boolean {
  return !(ENDS as readonly string[]).includes(state);
}

/** A hook of its own has come: it was more than launched. */
export function hasBegun({
  startedAt,
  lastActivityAt,
}: {
  startedAt: number;
  lastActivityAt: number;
}): boolean {
  return lastActivityAt > startedAt;
}

/** What a hook event says about the state of its session. */
export type SessionSignal =
  /** At its prompt, or with a prompt that is on its way. */
  | { kind: "started"; isIdle: boolean }
  | { kind: "compacted" }
  | { kind: "active" }
  | { kind: "waiting"; reason: WaitingReason; until?: number | null }
  | { kind: "turn_ended"; cause: string }
  | { kind: "ended"; cause: string }
  | { kind: "noticed" };

export interface Condition {
  state: SessionState;
  reason: WaitingReason | null;
  cause: string;
}

/** The condition after a signal; the same object when nothing changes. */
export function stepSession(now: Condition, signal: SessionSignal): Condition {
  const next = afterSignal(now, signal);
  return next.state === now.state && next.reason === now.reason ? now : next;
}

function afterSignal(now: Condition, signal: SessionSignal): Condition {
  if (now.state === "completed" || now.state === "failed") return now;
  if (!isLive(now.state) && signal.kind !== "started") return now;
  if (now.reason === "paused" && signal.kind !== "ended") return now;
  switch (signal.kind) {
    case "started":
      return { state: signal.isIdle ? "idle" : "working", reason: null, cause: "session started" };
    case "active":
      return { state: "working", reason: null, cause: "active again" };
    case "waiting":
      return { state: "waiting", reason: signal.reason, cause: `waiting: ${signal.reason}` };
    case "turn_ended":
      return { state: "idle", reason: null, cause: signal.cause };
    case "ended":
      return { state: "stopped", reason: null, cause: signal.cause };
    case "compacted":
    case "noticed":
      return now;
  }
}

/** The id of the action that a stop is. A session that was stopped and proved alive can be stopped again. */
export function stopId({ id, version }: { id: string; version: number }): string {
  return `stop-${id}-${version}`;
}

/** The id of the action that a session's completion is. */
export function completionId(sessionId: string): string {
  return `complete-${sessionId}`;
}
