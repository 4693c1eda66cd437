import { ORCHESTRATOR } from "../domain/names.ts";
import { isLive } from "../domain/session.ts";
import type { Overview, Session } from "../store/contract.ts";
import type { Project } from "./project.ts";

export interface AgentStatus {
  session: Session;
  unread: number;
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

/** What there is to see. Reads only. */
export async function readStatus(project: Project): Promise<Status> {
  const now = project.clock.now();
  const sessions = await project.ledger.currentSessions();
  const unread = await project.mail.unreadCounts();
  const { config } = await project.config();
  const isShown = (session: Session) =>
    isLive(session.state) ||
    now - (session.endedAt ?? session.stateAt) < SHOWN_AFTER_END_MS ||
    (unread.get(session.name) ?? 0) > 0;
  return {
    now,
    project: config.project.name,
    canonicalBranch: config.project.canonicalBranch,
    agents: sessions
      .filter((session) => session.capability !== ORCHESTRATOR && isShown(session))
      .map((session) => ({ session, unread: unread.get(session.name) ?? 0 })),
    orchestrators: sessions.filter((session) => session.capability === ORCHESTRATOR && isLive(session.state)),
    unread,
    overview: await project.ledger.overview(),
  };
}
