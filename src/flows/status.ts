import { ORCHESTRATOR } from "../domain/names.ts";
import { isLive } from "../domain/session.ts";
import type { TaskStatus } from "../domain/task.ts";
import type { Usage } from "../domain/usage.ts";
import { exists } from "../effects/files.ts";
import type { Overview, Session } from "../store/contract.ts";
import { distance } from "./look.ts";
import type { Project } from "./project.ts";
import { isLost } from "./running.ts";
import { type Memory, readUsage, totalOf, type UsageReport } from "./usage.ts";

export interface AgentStatus {
  session: Session;
  title: string | null;
  taskStatus: TaskStatus | null;
  unread: number;
  /** The ledger says that it lives, and its process is gone: seen here, recorded by the next repair. */
  isLost: boolean;
  /** Its worktree is where it was made. */
  hasWorktree: boolean;
  ahead: number | null;
  behind: number | null;
  /** By all its incarnations, for the task that it has now. */
  usage: Usage;
  isPartlyCounted: boolean;
}

export interface Status {
  now: number;
  project: string;
  canonicalBranch: string;
  agents: AgentStatus[];
  orchestrators: Session[];
  unread: Map<string, number>;
  overview: Overview;
}

/** An agent that has ended is shown for as long as somebody may still wonder about it. */
const SHOWN_AFTER_END_MS = 24 * 60 * 60 * 1000;

/** Of transcripts that nobody has recorded yet. A gigabyte takes about two seconds to read. */
const MOST_TRANSCRIPT_BYTES = 512 * 1024 * 1024;

/** What there is to see. Reads only; whoever looks again and again has a memory of what was read. */
export async function readStatus(project: Project, memory: Memory = new Map()): Promise<Status> {
  const now = project.clock.now();
  const sessions = await project.ledger.currentSessions();
  const unread = await project.mail.unreadCounts();
  const { config } = await project.config();
  const isShown = (session: Session) =>
    isLive(session.state) ||
    now - (session.endedAt ?? session.stateAt) < SHOWN_AFTER_END_MS ||
    (unread.get(session.name) ?? 0) > 0;
  const shown = sessions.filter((session) => session.capability !== ORCHESTRATOR && isShown(session));
  const pasts = await inTurn(shown, async (session) => [session, await sameTask(project, session)] as const);
  const everybody = pasts.flatMap(([, past]) => past);
  const report = await readUsage(project, everybody, { most: MOST_TRANSCRIPT_BYTES, memory });
  return {
    now,
    project: config.project.name,
    canonicalBranch: config.project.canonicalBranch,
    agents: await inTurn(pasts, async ([session, past]) => ({
      ...(await statusOf(project, session, unread)),
      ...usedBy(report, past),
    })),
    orchestrators: sessions.filter((session) => session.capability === ORCHESTRATOR && isLive(session.state)),
    unread,
    overview: await project.ledger.overview(),
  };
}

const AT_ONCE = 8;

/** A git for each of two hundred agents, all at the same moment, would be slower than one after the other. */
async function inTurn<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const done: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE) {
    done.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))));
  }
  return done;
}

/** The incarnations of a worker that have had the task that it has now. */
async function sameTask({ ledger }: Project, session: Session): Promise<Session[]> {
  const past = await ledger.pastSessions({ name: session.name });
  return past.filter(({ id, taskId }) => id === session.id || (taskId !== null && taskId === session.taskId));
}

function usedBy(report: UsageReport, sessions: readonly Session[]) {
  const ids = new Set(sessions.map(({ id }) => id));
  const isPartlyCounted = report.unread.some(({ session }) => ids.has(session.id));
  return { usage: totalOf(report, sessions), isPartlyCounted };
}

async function statusOf(
  project: Project,
  session: Session,
  unread: ReadonlyMap<string, number>,
): Promise<Omit<AgentStatus, "usage" | "isPartlyCounted">> {
  const isGone = isLive(session.state) && (await isLost(session));
  const apart = await distance(project, session.branch);
  const task = session.taskId === null ? null : await project.ledger.findTask(session.taskId);
  return {
    session,
    title: task?.title ?? null,
    taskStatus: task?.status ?? null,
    unread: unread.get(session.name) ?? 0,
    isLost: isGone,
    hasWorktree: session.worktree !== null && exists(session.worktree),
    ...apart,
  };
}
