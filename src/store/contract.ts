import type { EventType, NewEvent } from "../domain/event.ts";
import type { Injection, Message } from "../domain/mail.ts";
import type { SessionSignal, SessionState, WaitingReason } from "../domain/session.ts";
import type { Priority, TaskKind, TaskStatus } from "../domain/task.ts";

/**
 * What any backend must do. One method is one transaction, named by intent; every method is async although SQLite is
 * not, so that a backend over a network can stand in its place. Times are epoch ms and always arguments, as are ids.
 */

export interface Session {
  id: string;
  name: string;
  capability: string;
  taskId: string | null;
  parent: string | null;
  depth: number;
  worktree: string | null;
  branch: string | null;
  pid: number | null;
  claudeSessionId: string | null;
  transcriptPath: string | null;
  state: SessionState;
  reason: WaitingReason | null;
  cause: string;
  stateAt: number;
  startedAt: number;
  endedAt: number | null;
  lastActivityAt: number;
  toolName: string | null;
  toolStartedAt: number | null;
  toolsInFlight: number;
  fileScope: string[];
  logFolder: string;
  version: number;
}

export interface NewSession {
  id: string;
  name: string;
  capability: string;
  tokenHash: string | null;
  startedAt: number;
  logFolder: string;
  taskId?: string | null;
  parent?: string | null;
  depth?: number;
  worktree?: string | null;
  branch?: string | null;
  pid?: number | null;
  claudeSessionId?: string | null;
  fileScope?: readonly string[];
}

/** Who a hook or a command speaks for: a worker is known by its token, the orchestrator by its Claude session. */
export type SessionKey = { tokenHash: string } | { sessionId: string } | { orchestrator: string };

/** One hook event, as the ledger records it. */
export interface Activity {
  at: number;
  signal: SessionSignal;
  event: EventType;
  data: Readonly<Record<string, unknown>>;
  claudeSessionId?: string;
  transcriptPath?: string;
  tool?: { phase: "started"; name: string } | { phase: "ended" };
}

export interface Recorded {
  session: Session;
  /** False for a late hook of an older incarnation: it must not take what is meant for the newer one. */
  isCurrent: boolean;
}

export interface Sessions {
  /** `name_taken` when a live session has the name. */
  registerSession(session: NewSession): Promise<Session>;
  /** The orchestrator's row for this Claude session, made when it is new. */
  ensureOrchestrator(session: NewSession & { claudeSessionId: string }): Promise<Session>;
  findSession(key: SessionKey): Promise<Recorded | null>;
  /** Activity, state and event in one transaction; null when nobody has that key. Does not bump the version. */
  recordActivity(key: SessionKey, activity: Activity): Promise<Recorded | null>;
  /** The newest incarnation of a name. */
  currentSession(name: string): Promise<Session | null>;
  /** The live workers, oldest first. */
  liveWorkers(limit: number): Promise<Session[]>;
  /** The newest incarnation of every name and every live orchestrator, live ones first, oldest first within. */
  currentSessions(): Promise<Session[]>;
}

export interface Task {
  id: string;
  kind: TaskKind;
  parentId: string | null;
  title: string;
  body: string;
  status: TaskStatus;
  priority: Priority;
  files: string[];
  tags: string[];
  dependsOn: string[];
  /** Dependencies that are not done yet. */
  waitsFor: string[];
  reason: string | null;
  createdAt: number;
  updatedAt: number;
  endedAt: number | null;
  version: number;
}

export interface NewTask {
  id: string;
  title: string;
  body: string;
  priority: Priority;
  files: readonly string[];
  tags: readonly string[];
  dependsOn: readonly string[];
  at: number;
  actor: string;
}

export interface TaskFilter {
  status?: TaskStatus;
  isOpen?: boolean;
  limit?: number;
}

export interface ClosedTask {
  task: Task;
  /** Tasks that waited for this one alone and are ready now. */
  queued: string[];
}

export interface Tasks {
  /** `task_exists` for a known id, `dependency_unknown` for an unknown dependency. */
  createTask(task: NewTask): Promise<Task>;
  findTask(id: string): Promise<Task | null>;
  listTasks(filter: TaskFilter): Promise<Task[]>;
  /** Done, with the reason kept; a task that has been closed already is `task_closed`. */
  closeTask(id: string, close: { reason: string; actor: string; at: number }): Promise<ClosedTask>;
  taskIdsLike(prefix: string, limit: number): Promise<string[]>;
}

export interface StoredEvent {
  seq: number;
  at: number;
  type: EventType;
  agent: string | null;
  sessionId: string | null;
  taskId: string | null;
  data: Record<string, unknown>;
}

export interface EventFilter {
  agent?: string;
  /** A type, or a family of types such as `session`. */
  type?: string;
  since?: number;
  afterSeq?: number;
  limit: number;
}

export interface Events {
  appendEvents(events: readonly NewEvent[]): Promise<void>;
  /** The newest that match, oldest first. */
  listEvents(filter: EventFilter): Promise<StoredEvent[]>;
  /** Counts events older than `before` into one milestone per agent and removes them. */
  compactEvents(before: number, at: number): Promise<{ removed: number; milestones: number }>;
}

export interface Overview {
  tasks: Record<TaskStatus, number>;
  merge: Record<string, number>;
  goals: { active: number; total: number };
  lastTickAt: number | null;
}

/** What `doctor --fix` puts back into a new ledger; what is there already stays as it is. */
export interface Restoration {
  sessions: readonly (NewSession & { state: SessionState; lastActivityAt: number })[];
  tasks: readonly (NewTask & { status: TaskStatus; reason: string | null })[];
  events: readonly NewEvent[];
}

export interface Ledger extends Sessions, Tasks, Events {
  overview(): Promise<Overview>;
  restore(from: Restoration): Promise<{ sessions: number; tasks: number; events: number }>;
  /** The first problems a full check finds; empty when there are none. */
  check(): Promise<string[]>;
  close(): void;
}

/** A process as `pid:start`: a number that is used again means another one. */
export type ProcessMark = string;

export interface Claimant {
  process: ProcessMark;
  /** The Claude session that is shown the mail; null when it is printed by hand. */
  claudeSessionId: string | null;
}

export type NewMessage = Omit<Message, "read">;

export interface MailFilter {
  from?: string;
  to?: string;
  isUnread?: boolean;
  threadId?: string;
  /** Either of the two. */
  party?: string;
  limit: number;
}

export interface ClaimRequest {
  recipient: string;
  claimant: Claimant;
  at: number;
  /** Pressing mail only, with what its senders wrote before it, so that the order within a sender is kept. */
  pressingOnly: boolean;
  maxLength: number;
}

/** How much is unread in an inbox, as far as a hook must know before it decides to write anything. */
export interface InboxGlance {
  hasUnread: boolean;
  hasPressing: boolean;
  claims: Claimant[];
}

export interface MailStore {
  /** All or none; a message whose id is known is not sent again. */
  send(messages: readonly NewMessage[]): Promise<void>;
  /** Reads only. */
  glance(recipient: string): Promise<InboxGlance>;
  /** Claims exactly the messages that fit, in order, so that no other claimant prints them. */
  claim(request: ClaimRequest): Promise<Injection>;
  /** The printing process hands what it printed to the session that shows it. */
  handOver(ids: readonly string[], from: ProcessMark, to: Claimant): Promise<void>;
  /** Marks read what this claimant was shown, as far as it has arrived; returns the ids. */
  acknowledge(
    recipient: string,
    claimant: Claimant,
    at: number,
    hasArrived?: (id: string) => boolean,
  ): Promise<string[]>;
  markRead(ids: readonly string[], at: number): Promise<void>;
  /** Unread again: everything a process claimed that is gone, or a Claude session that ended. */
  release(recipient: string, claimant: Partial<Claimant>): Promise<string[]>;
  findMessage(id: string): Promise<Message | null>;
  /** The newest that match, oldest first. */
  listMessages(filter: MailFilter): Promise<Message[]>;
  unreadCounts(): Promise<Map<string, number>>;
  restore(messages: readonly (NewMessage & { readAt: number | null })[]): Promise<number>;
  check(): Promise<string[]>;
  close(): void;
}
