import { OverseerError } from "../domain/errors.ts";
import { completionId } from "../domain/session.ts";
import { isOpen } from "../domain/task.ts";
import { logError } from "../effects/logs.ts";
import type { Session } from "../store/contract.ts";
import { announceCompletion } from "./complete.ts";
import { sendOurs } from "./mail.ts";
import { cleaner, type Project } from "./project.ts";
import { tellOrLog, trackerOf } from "./tracker.ts";

/**
 * A worker may have closed its task in the tracker itself: then that is its announcement. It hears by mail why it does
 * not count. True when its turn is over already, so that no Stop will come to carry it out.
 */
export async function announceIfClosed(project: Project, session: Session): Promise<boolean> {
  const { taskId } = session;
  if (taskId === null) return false;
  try {
    const task = await (await trackerOf(project)).find(taskId);
    if (!task || isOpen(task.status)) return false;
    // Others that depend on it wait until it has landed. Before it is announced, since carrying it out may close it.
    await tellOrLog(project, `keeping ${taskId} open`, (tracker) => tracker.tellClaimed(taskId));
    const clean = await cleaner(project);
    await announceCompletion(project, session, clean(task.reason ?? "closed in its tracker"));
  } catch (error) {
    logError(project.paths, project.clock.now(), `announcing that ${session.name} has finished`, error);
    if (!(error instanceof OverseerError)) throw error;
    await mailRefusal(project, session, error);
    return false;
  }
  return await isTurnOver(project, session);
}

/** Its Stop says that it is idle and then looks for an announcement; whoever announces does it the other way round. */
async function isTurnOver(project: Project, { id, name }: Session): Promise<boolean> {
  const now = (await project.ledger.findSession({ sessionId: id }))?.session;
  // Mail that was shown at its end gives it another turn, with another Stop.
  return now?.state === "idle" && (await project.mail.glance(name)).claims.length === 0;
}

async function mailRefusal(project: Project, session: Session, why: OverseerError): Promise<void> {
  const { id, name, taskId } = session;
  const next = why.hint === undefined ? "" : `\n${why.hint}`;
  await sendOurs(project, {
    id: `msg-${completionId(id)}-refused-${project.clock.now()}`,
    from: "overseer",
    to: name,
    subject: `${taskId} does not count as finished yet`,
    body: `You closed ${taskId}, but ${why.message}.${next}\nThen: overseer task close ${taskId} --reason "what you did"`,
    type: "steer",
    priority: "high",
  });
}
