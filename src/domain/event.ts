/**
 * Every type of event there is. An event is appended to the ledger and to the NDJSON logs, never changed: together they
 * answer "why did it do that?".
 */
export const EVENT_TYPES = {
  "session.registered": "a session was created",
  "session.launched": "a worker's pane was opened",
  "session.spawn_failed": "a worker could not be started; everything that was made for it was undone",
  "session.stopping": "somebody began to stop a worker",
  "session.stopped": "a worker was stopped",
  "session.died": "a worker's process was found gone",
  "session.completing": "a worker said that its task is done",
  "session.completed": "a worker has finished",
  "session.started": "Claude Code began, resumed or cleared the session",
  "session.compacted": "the session's context was compacted",
  "session.prompted": "the session got a prompt",
  "session.tool_started": "a tool call began",
  "session.tool_finished": "a tool call succeeded",
  "session.tool_failed": "a tool call failed",
  "session.waiting": "the session waits for a permission or an answer",
  "session.notified": "Claude Code notified its user",
  "session.turn_ended": "the session ended its turn and is idle",
  "session.turn_failed": "the turn ended in an error",
  "session.woken": "mail came for a session that was idle, and it was woken",
  "session.compacting": "the session's context is about to be compacted",
  "session.ended": "Claude Code ended the session",
  "guard.denied": "a tool call was denied, by a rule and with a reason",
  "session.milestone": "older events of an agent, counted",
  "task.created": "a task was created",
  "task.queued": "a task became ready",
  "task.claimed": "a worker began a task",
  "task.released": "a task was taken back from a worker that never started",
  "task.closed": "a task was closed",
  "merge.enqueued": "a branch was put into the merge queue",
  "merge.held": "a branch was kept from being merged, since it changes what its worker may not",
  "worktree.removed": "a worktree was removed",
  "worktree.rescued": "work that had not landed was saved under a ref",
  "mail.sent": "a message was sent",
  "mail.delivered": "a message was printed to its recipient",
  "mail.read": "a message was acknowledged",
  "mail.released": "a message was printed to a session that died before it could read it",
  "store.corrupt": "a database was corrupt and was set aside",
  "store.restored": "a database was restored from the logs",
} as const satisfies Record<string, string>;

export type EventType = keyof typeof EVENT_TYPES;

export interface NewEvent {
  at: number;
  type: EventType;
  agent?: string | null;
  sessionId?: string | null;
  taskId?: string | null;
  data?: Readonly<Record<string, unknown>>;
}

export function isEventType(text: string): text is EventType {
  return Object.hasOwn(EVENT_TYPES, text);
}
