import type { NewEvent } from "../domain/event.ts";
import { WAKE_NOTICE } from "../domain/mail.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { hasDraft } from "../domain/screen.ts";
import { isLive } from "../domain/session.ts";
import { logError } from "../effects/logs.ts";
import { processMark } from "../effects/processes.ts";
import { forgetKnocks, knock } from "../effects/waiters.ts";
import type { Session } from "../store/contract.ts";
import { paneOf } from "./launch.ts";
import { selfMark } from "./lease.ts";
import { type Project, sessionEvent, tell } from "./project.ts";
import { isLost } from "./running.ts";

/**
 * What becomes of mail at the moment it is sent. `woken`: its recipient was idle, and is given a turn with it. `busy`:
 * it is shown in the running turn, or at its end. `later`: when its recipient begins, goes on or is back.
 */
export interface Reach {
  how: "woken" | "busy" | "later";
  /** The live session that answers to the address, if any. */
  session: Session | null;
}

const NOBODY: Reach = { how: "later", session: null };

/**
 * Wakes whoever is idle. The mail has been committed before the states are read here, and a hook that ends a turn
 * commits `idle` before it reads the mail: one of the two sees the other. The mail is sent, whatever happens here: it
 * is shown with the next prompt at the latest.
 */
export async function wakeRecipients(
  project: Project,
  names: readonly string[],
): Promise<Map<string, Reach>> {
  const reached = new Map<string, Reach>();
  try {
    const sessions = await project.ledger.currentSessions();
    for (const name of names) reached.set(name, await reach(project, await whoAnswersTo(sessions, name)));
  } catch (error) {
    logError(project.paths, project.clock.now(), `waking ${names.join(", ")}`, error);
  }
  return reached;
}

async function reach(project: Project, session: Session | null): Promise<Reach> {
  if (session === null) return NOBODY;
  const isFree = session.state === "idle" || isLimitOver(session, project.clock.now());
  if (!isFree && (session.state === "booting" || session.state === "waiting"))
    return { how: "later", session };
  // A hook that has committed `idle` and shown the mail by now gives it another turn.
  if (!isFree || !(await hasUnread(project, session.name))) return { how: "busy", session };
  return { how: (await wake(project, session)) ? "woken" : "later", session };
}

/** Its turn has failed and it stands at its prompt: nothing but a prompt lets it go on, unless its limit has an end. */
function isLimitOver({ reason, reasonUntil }: Session, now: number): boolean {
  return reason === "rate_limit" && (reasonUntil === null || reasonUntil <= now);
}

async function hasUnread({ mail }: Project, name: string): Promise<boolean> {
  return (await mail.glance(name)).hasUnread;
}

/** The person may have several sessions open; the one that was active last is the one that listens. */
async function whoAnswersTo(sessions: readonly Session[], name: string): Promise<Session | null> {
  const own = sessions.filter((session) => session.name === name && isLive(session.state));
  for (const session of own.toSorted((one, other) => other.lastActivityAt - one.lastActivityAt)) {
    if (session.pid !== null && (await processMark(session.pid)) !== null && !(await isLost(session)))
      return session;
  }
  return null;
}

async function wake(project: Project, session: Session): Promise<boolean> {
  const { wake: way } = (await project.config()).config.delivery;
  const { pid } = session;
  if (way === "none" || pid === null) return false;
  if (way === "waiter" && knock(project.paths, pid)) {
    await tell(project, [woken(project, session, "waiter")]);
    return true;
  }
  if (session.name === ORCHESTRATOR || !(await paste(project, session))) return false;
  await forgetKnocks(project.paths, pid);
  return true;
}

function woken(project: Project, session: Session, by: "waiter" | "paste"): NewEvent {
  return sessionEvent(session, "session.woken", project.clock.now(), { by });
}

/**
 * The fallback: one fixed line into the pane. At most once while it is idle, and never where a person may be about to
 * say something, for a paste joins what stands in the input line and sends both.
 */
async function paste(project: Project, session: Session): Promise<boolean> {
  const pane = await paneOf(project, session);
  if (!pane) return false;
  const { ledger, clock } = project;
  const action = {
    id: `paste-${session.id}-${session.stateAt}`,
    kind: "paste",
    subject: session.name,
    payload: {},
  };
  const tmux = await project.tmux();
  // What stands there may be the line that another sender is about to send off.
  if ((await tmux.isWatched(pane.id)) || hasDraft(await tmux.text(pane.id, 0)))
    return (await ledger.findAction(action.id)) !== null;
  await ledger.planAction(action, woken(project, session, "paste"));
  // Whoever was faster wakes it for both.
  if (!(await ledger.takeAction(action.id, null, await selfMark(), clock.now()))) return true;
  await tmux.paste(pane.id, WAKE_NOTICE);
  await ledger.endAction(action.id, "done", "pasted", clock.now());
  return true;
}
