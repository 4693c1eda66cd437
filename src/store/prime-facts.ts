import { ORCHESTRATOR } from "../domain/names.ts";
import type { PrimeFacts } from "../domain/prime.ts";
import type { Ledger, Session, StoredEvent } from "./contract.ts";
import type { MailStore } from "./mail-contract.ts";

const SHOWN = 8;

export interface Primed {
  name: string;
  session: Session | null;
  /** False for a session that has just begun: nothing has happened to it yet. */
  hasPast: boolean;
}

/** Reads what `prime` shows; the command and the SessionStart hook both begin here. */
export async function primeFacts(
  ledger: Ledger,
  mail: MailStore,
  whom: Primed,
  now: number,
): Promise<PrimeFacts> {
  const { name, session, hasPast } = whom;
  const isWorker = name !== ORCHESTRATOR;
  const task = session?.taskId ? await ledger.findTask(session.taskId) : null;
  const events = hasPast
    ? await ledger.listEvents({ ...(isWorker ? { agent: name } : {}), limit: SHOWN * 2 })
    : [];
  const { hasUnread, claims } = await mail.glance(name);
  const isEmpty = !hasUnread && claims.length === 0;
  const unread = isEmpty ? [] : await mail.listMessages({ to: name, isUnread: true, limit: SHOWN });
  const others = (await ledger.liveWorkers(SHOWN)).filter((other) => other.name !== name);
  return {
    now,
    name,
    capability: session?.capability ?? name,
    isWorker,
    branch: session?.branch ?? null,
    parent: session?.parent ?? null,
    fileScope: session?.fileScope ?? [],
    task: task && { id: task.id, title: task.title, body: task.body },
    lastEvents: events
      .filter(isTelling)
      .slice(-SHOWN)
      .map((event) => ({ at: event.at, text: tell(event, isWorker) })),
    unread: unread.map(({ from, subject, type }) => ({ from, subject, type })),
    unreadTotal: unread.length < SHOWN ? unread.length : ((await mail.unreadCounts()).get(name) ?? 0),
    others: await Promise.all(others.map((other) => colleague(ledger, other))),
    readyTasks: isWorker
      ? []
      : (await ledger.listTasks({ status: "queued", limit: SHOWN + 1 })).map(({ id, title }) => ({
          id,
          title,
        })),
  };
}

async function colleague(ledger: Ledger, session: Session): Promise<PrimeFacts["others"][number]> {
  const { name, capability, taskId, stateAt, fileScope } = session;
  const task = taskId === null ? null : await ledger.findTask(taskId);
  const state = session.reason ? `${session.state}: ${session.reason}` : session.state;
  const about = task ? `${task.id} ${task.title}` : taskId;
  return { name, capability, state, task: about, files: fileScope, since: stateAt };
}

/** Mail has its own section, and what begins and ends every turn tells nothing. */
function isTelling({ type }: StoredEvent): boolean {
  return (
    !type.startsWith("mail.") &&
    ![
      "session.registered",
      "session.started",
      "session.prompted",
      "session.notified",
      "session.tool_started",
    ].includes(type)
  );
}

function tell(event: StoredEvent, isWorker: boolean): string {
  const who = [isWorker ? null : event.agent, event.type.startsWith("task.") ? event.taskId : null];
  const what = event.type.slice(event.type.indexOf(".") + 1).replaceAll("_", " ");
  const about = ["tool", "title", "error", "message", "reason", "after"]
    .map((key) => event.data[key])
    .find((value) => typeof value === "string" && value !== "");
  return [...who, what, about ? `(${about})` : null].filter((word) => word !== null).join(" ");
}
