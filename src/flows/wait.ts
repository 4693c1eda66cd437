import { OverseerError } from "../domain/errors.ts";
import { isLive, type SessionState } from "../domain/session.ts";
import type { Session } from "../store/contract.ts";
import { unknownAgent } from "./prime.ts";
import type { Project } from "./project.ts";
import { isLost } from "./running.ts";

export const AWAITED = ["completed", "idle", "waiting"] as const;
export type Awaited = (typeof AWAITED)[number];

export interface WaitRequest {
  /** Those that live, when nobody is named. */
  names: readonly string[];
  isAny: boolean;
  for: Awaited;
  timeoutMs: number;
}

const LOOK_AGAIN_MS = 200;

/** Returns when all of them, or any, have come to the state; fails as soon as one never will. */
export async function waitForWorkers(reopen: () => Project, request: WaitRequest): Promise<Session[]> {
  const first = reopen();
  const names = request.names.length > 0 ? [...new Set(request.names)] : await liveNames(first);
  const deadline = first.clock.now() + request.timeoutMs;
  for (let project = first; ; project = reopen()) {
    const sessions = await Promise.all(names.map((name) => newest(project, name)));
    const there = sessions.filter(({ state }) => hasReached(state, request.for));
    if (request.isAny ? there.length > 0 : there.length === sessions.length) return there;
    const missing = sessions.filter((session) => !there.includes(session));
    const lost = (await Promise.all(missing.map(isHopeless))).map((is, at) => (is ? missing[at] : undefined));
    const [never] = lost.filter((session) => session !== undefined);
    if (never && (!request.isAny || lost.every((session) => session !== undefined)))
      throw neverWill(never, request.for);
    if (project.clock.now() >= deadline) throw notYet(missing, request.for);
    await Bun.sleep(Math.min(LOOK_AGAIN_MS, Math.max(1, deadline - project.clock.now())));
  }
}

async function liveNames(project: Project): Promise<string[]> {
  const names = (await project.ledger.liveWorkers(-1)).map(({ name }) => name);
  if (names.length > 0) return names;
  throw new OverseerError("nothing_yet", "nobody is working, so there is nobody to wait for", {
    hint: "overseer status",
  });
}

async function newest(project: Project, name: string): Promise<Session> {
  const session = await project.ledger.currentSession(name);
  if (session) return session;
  throw await unknownAgent(project, name);
}

/** Whoever has completed has been idle on the way. */
function hasReached(state: SessionState, awaited: Awaited): boolean {
  return state === awaited || (awaited === "idle" && state === "completed");
}

async function isHopeless(session: Session): Promise<boolean> {
  if (!isLive(session.state)) return true;
  return session.state !== "booting" && (await isLost(session));
}

function neverWill({ name, state, cause }: Session, awaited: Awaited): OverseerError {
  const now = isLive(state) ? "is not running any more: its process is gone" : `is ${state} (${cause})`;
  return new OverseerError("ended_otherwise", `${name} ${now}, and will not become ${awaited}`, {
    hint: `overseer logs ${name}, then overseer resume ${name}`,
  });
}

function notYet(missing: readonly Session[], awaited: Awaited): OverseerError {
  const who = missing.map(
    ({ name, state, reason }) => `${name} is ${reason ? `${state}: ${reason}` : state}`,
  );
  return new OverseerError("nothing_yet", `not ${awaited} yet: ${who.join(", ")}`, {
    hint: "wait again, or look: overseer status",
  });
}
