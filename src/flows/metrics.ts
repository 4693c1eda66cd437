import { addUsage, NO_USAGE, type Usage } from "../domain/usage.ts";
import type { Session } from "../store/contract.ts";
import type { Project } from "./project.ts";
import { readUsage, type Unread } from "./usage.ts";

export interface SessionMetrics {
  session: Session;
  durationMs: number;
  /** How its branch was merged; null until it is. */
  tier: string | null;
  usage: Usage;
}

/** Several sessions, added up. */
export interface Sum {
  sessions: number;
  durationMs: number;
  usage: Usage;
}

export interface Metrics {
  sessions: SessionMetrics[];
  agents: Map<string, Sum>;
  /** Sessions without a task, such as the orchestrator's, are in none. */
  tasks: Map<string, Sum>;
  total: Sum;
  unread: Unread[];
}

/** What the last sessions took and used, newest last. Reads only. */
export async function readMetrics(project: Project, last: number): Promise<Metrics> {
  const { ledger } = project;
  const now = project.clock.now();
  const latest = await ledger.latestSessions(last);
  const { bySession, unread } = await readUsage(project, latest);
  const sessions: SessionMetrics[] = [];
  for (const session of latest) {
    const entries = await ledger.mergeEntries({ sessionId: session.id });
    sessions.push({
      session,
      durationMs: Math.max(0, (session.endedAt ?? now) - session.startedAt),
      tier: entries.find(({ tier }) => tier !== null)?.tier ?? null,
      usage: bySession.get(session.id) ?? NO_USAGE,
    });
  }
  return {
    sessions,
    agents: sumsBy(sessions, ({ name }) => name),
    tasks: sumsBy(sessions, ({ taskId }) => taskId),
    total: sumOf(sessions),
    unread,
  };
}

function sumsBy(
  sessions: readonly SessionMetrics[],
  key: (session: Session) => string | null,
): Map<string, Sum> {
  const sums = new Map<string, Sum>();
  for (const [name, own] of Map.groupBy(sessions, ({ session }) => key(session))) {
    if (name !== null) sums.set(name, sumOf(own));
  }
  return sums;
}

function sumOf(sessions: readonly SessionMetrics[]): Sum {
  return {
    sessions: sessions.length,
    durationMs: sessions.reduce((sum, { durationMs }) => sum + durationMs, 0),
    usage: sessions.reduce((sum, { usage }) => addUsage(sum, usage), NO_USAGE),
  };
}
