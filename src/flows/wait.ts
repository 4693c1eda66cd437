import { OverseerError } from "../domain/errors.ts";
import { helpFor, type Need, needOf } from "../domain/need.ts";
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
  /** Told while it waits, once, of each that does not go on by itself. */
  notice: (line: string) => void;
}

const LOOK_AGAIN_MS = 200;

/** Between two turns, such as when mail begins the next one, a worker is idle for a moment. */
const SETTLED_MS = 2_000;

/** Returns when all of them, or any, have come to the state; fails as soon as one never will. */
export async function waitForWorkers(reopen: () => Project, request: WaitRequest): Promise<Session[]> {
  const first = reopen();
  const names = request.names.length > 0 ? [...new Set(request.names)] : await liveNames(first);
  const deadline = first.clock.now() + request.timeoutMs;
  const told = new Set<string>();
  for (let project = first; ; project = reopen()) {
    const sessions = await Promise.all(names.map((name) => newest(project, name)));
    const there = sessions.filter(({ state }) => hasReached(state, request.for));
    if (request.isAny ? there.length > 0 : there.length === sessions.length) return there;
    const missing = sessions.filter((session) => !there.includes(session));
    const lost = (await Promise.all(missing.map(isHopeless))).map((is, at) => (is ? missing[at] : undefined));
    const [never] = lost.filter((session) => session !== undefined);
    if (never && (!request.isAny || lost.every((session) => session !== undefined)))
      throw neverWill(never, request.for);
    const stuck = await stuckOnes(project, missing);
    if (project.clock.now() >= deadline) throw notYet(missing, stuck, request.for);
    for (const one of stuck) {
      const key = `${one.session.id} ${one.session.stateAt}`;
      if (told.has(key) || project.clock.now() - one.session.stateAt < SETTLED_MS) continue;
      told.add(key);
      request.notice(`${inWords(one)}: ${helpFor(one.need, [one.session.name])}`);
    }
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

interface Stuck {
  session: Session;
  need: Need;
}

async function stuckOnes(project: Project, sessions: readonly Session[]): Promise<Stuck[]> {
  const live = await project.ledger.liveWorkers(-1);
  const found: Stuck[] = [];
  for (const session of sessions) {
    // Whoever has workers of its own is woken by their mail; whoever has said that it is done is about to go.
    const isServed = live.some(({ parent }) => parent === session.name);
    const hasWorkLeft =
      session.taskId !== null && !isServed && !(await project.ledger.isCompleting(session.id));
    const need = needOf(session, hasWorkLeft);
    if (need !== null) found.push({ session, need });
  }
  return found;
}

function inWords({ session: { name, state, reason, taskId }, need }: Stuck): string {
  return need === "answer"
    ? `${name} is ${state}: ${reason}`
    : `${name} is idle, and its task ${taskId} is open`;
}

function notYet(missing: readonly Session[], stuck: readonly Stuck[], awaited: Awaited): OverseerError {
  const who = missing.map((session) => {
    const { name, state, reason } = session;
    const known = stuck.find((one) => one.session === session);
    return known ? inWords(known) : `${name} is ${reason ? `${state}: ${reason}` : state}`;
  });
  const needs = Map.groupBy(stuck, ({ need }) => need);
  const helps = [...needs].map(([need, ones]) =>
    helpFor(
      need,
      ones.map(({ session }) => session.name),
    ),
  );
  return new OverseerError("nothing_yet", `not ${awaited} yet: ${who.join(", ")}`, {
    hint: helps.length > 0 ? helps.join("; ") : "wait again, or look: overseer status",
  });
}
