import { type Message, printable } from "../domain/mail.ts";
import type { Usage } from "../domain/usage.ts";
import type { AgentStatus } from "../flows/status.ts";
import type { Session, StoredEvent, Task } from "../store/contract.ts";
import type { Style } from "./output.ts";

/** How rows look in JSON output: the documented fields, times in ISO 8601. */
export function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}

export function messageView(message: Message) {
  const { id, from, to, subject, body, type, priority, threadId, createdAt, read } = message;
  return { id, from, to, subject, body, type, priority, threadId, createdAt: iso(createdAt), read };
}

export function taskView(task: Task) {
  const { createdAt, updatedAt, endedAt, version: _, ...rest } = task;
  return { ...rest, createdAt: iso(createdAt), updatedAt: iso(updatedAt), endedAt: iso(endedAt) };
}

export function statusView({ session, unread, usage, ...seen }: AgentStatus) {
  const { title, isLost, hasWorktree, ahead, behind } = seen;
  const { cost, tokens } = usageView(usage);
  return { ...agentView(session, unread), title, isLost, hasWorktree, ahead, behind, cost, tokens };
}

/** The cost is that of the answers with a known price, null when there is none. */
export function usageView({ answers, tokens, cost, unpriced, priced }: Usage) {
  // Adding up leaves dust in the last places.
  const usd = priced === 0 ? null : Number(cost.toFixed(9));
  return { answers, tokens, cost: usd, unpricedModels: priced === answers ? [] : unpriced };
}

export function agentView(session: Session, unread: number) {
  const { name, capability, state, reason, cause, taskId, branch, worktree, pid, parent, depth } = session;
  const times = { startedAt: iso(session.startedAt), lastActivityAt: iso(session.lastActivityAt) };
  return {
    name,
    capability,
    state,
    reason,
    cause,
    taskId,
    branch,
    worktree,
    pid,
    parent,
    depth,
    reasonUntil: iso(session.reasonUntil),
    ...times,
    unread,
  };
}

export function eventView(event: StoredEvent) {
  return { ...event, at: iso(event.at) };
}

export function messageText(message: Message, style: Style): string {
  const kind = message.priority === "normal" ? message.type : `${message.type}, ${message.priority}`;
  const from = `${message.from} to ${message.to}, ${kind}, ${iso(message.createdAt)}`;
  const head = `${style.bold(printable(message.subject))}\n${style.dim(`${message.id}  ${from}`)}`;
  return `${head}\n${printable(message.body).trimEnd()}`.trimEnd();
}
