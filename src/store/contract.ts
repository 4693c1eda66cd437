import type { EventType, NewEvent } from "../domain/event.ts";
import type { SessionSignal, SessionState, WaitingReason } from "../domain/session.ts";
import type { Priority, TaskFacts, TaskKind, TaskStatus } from "../domain/task.ts";
import type { UsageRecords } from "./usage-contract.ts";

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
  /** What the branch was made from. */
  baseCommit: string | null;
  model: string | null;
  tmuxSession: string | null;
  paneId: string | null;
  pid: number | null;
  /** The pid with its start, once both are known. */
  mark: ProcessMark | null;
  claudeSessionId: string | null;
  transcriptPath: string | null;
  state: SessionState;
  reason: WaitingReason | null;
  /** When the reason is expected to be over, such as a rate limit. */
  reasonUntil: number | null;
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
  baseCommit?: string | null;
  model?: string | null;
  pid?: number | null;
  claudeSessionId?: string | null;
  transcriptPath?: string | null;
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

/** What a spawn reserves beside the name. */
export interface Reservation {
  /** Who makes the spawn: dead before it is finished, somebody else must repair it. */
  owner: ProcessMark;
  maxConcurrent: number;
  /** The task, where it is made together with its worker. */
  newTask: NewTask | null;
  /** The task as a tracker outside of the ledger has it, which the ledger's row follows. */
  mirror: MirroredTask | null;
  /** What else a later incarnation must know. */
  notes: Readonly<Record<string, unknown>>;
}

export interface Sessions {
  /** The orchestrator's row for this Claude session, made when it is new. */
  ensureOrchestrator(session: NewSession & { claudeSessionId: string }): Promise<Session>;
  findSession(key: SessionKey): Promise<Recorded | null>;
  /** Activity, state and event in one transaction; null when nobody has that key. Does not bump the version. */
  recordActivity(key: SessionKey, activity: Activity): Promise<Recorded | null>;
  /** Whether this session has said that it is done, which its next Stop carries out. */
  isCompleting(sessionId: string): Promise<boolean>;
  /** How many of its latest turns in a row were begun by mail that it was shown at the end of the one before. */
  mailTurns(sessionId: string): Promise<number>;
  /** The newest incarnation of a name. */
  currentSession(name: string): Promise<Session | null>;
  /** The live workers, oldest first. */
  liveWorkers(limit: number): Promise<Session[]>;
  /** The newest incarnation of every name and every live orchestrator, live ones first, oldest first within. */
  currentSessions(): Promise<Session[]>;
}

export interface Launched {
  tmuxSession: string;
  paneId: string;
  pid: number;
  mark: ProcessMark | null;
  /** Null when only the pane was found. */
  claudeSessionId: string | null;
}

export interface NewMergeEntry {
  id: string;
  branch: string;
  commit: string;
  into: string;
  files: readonly string[];
}

export interface MergeEntry extends NewMergeEntry {
  taskId: string | null;
  sessionId: string | null;
  status: string;
  tier: string | null;
  /** Why it is held, or failed. */
  error: string | null;
  enqueuedAt: number;
}

/** The life of a worker beyond its hooks. Every method takes the event that tells of it, for the same transaction. */
export interface Workers {
  /**
   * `name_taken` when a live session has the name. With a reservation also `too_many_workers`, `task_unknown`,
   * `task_closed`, `task_taken`, `task_waits` and `scope_taken`, and an action of kind `spawn` with the session's id.
   */
  registerSession(session: NewSession, reservation?: Reservation): Promise<Session>;
  /** False when the session has ended meanwhile. */
  recordLaunch(sessionId: string, launched: Launched, event: NewEvent): Promise<boolean>;
  /** False when it has ended already, otherwise than as `stopped` or `zombie`, or is not in the state `from`. */
  endSession(
    sessionId: string,
    end: { state: "stopped" | "failed" | "zombie"; cause: string; at: number; from?: SessionState },
    event: NewEvent,
  ): Promise<boolean>;
  /** The next incarnation of a worker that has ended, or whose process is gone. `changed_meanwhile` if somebody was faster. */
  succeedSession(previous: Session, next: NewSession, reservation: Reservation): Promise<Session>;
  /**
   * The session is completed, its entry stands in the queue, and its task waits for that or, with no entry, is done.
   * Held is an entry that must not be merged as it is. What an earlier session had on that branch is replaced. Done
   * twice, it is done once.
   */
  completeSession(
    sessionId: string,
    completion: { entry: NewMergeEntry | null; heldFor?: string | null; reason: string; at: number },
    event: NewEvent,
  ): Promise<{ queued: string[] }>;
  /**
   * The worktree of a session, which may have been that of earlier incarnations of its name, is gone: its files are
   * nobody's any more, and what waited in the merge queue has landed or was given up.
   */
  releaseWorktree(sessionId: string, fate: "merged" | "aborted" | "undone", event: NewEvent): Promise<void>;
  /** Every incarnation of a name, or every session that had a task, newest first. */
  pastSessions(of: { name: string } | { taskId: string }): Promise<Session[]>;
  mergeEntries(filter: { sessionId?: string; taskId?: string }): Promise<MergeEntry[]>;
}

export type ActionState = "planned" | "running" | "done" | "failed" | "unknown";

/** Something that was decided and takes time: whoever is killed in the middle of it leaves it to the next. */
export interface Action {
  id: string;
  kind: string;
  subject: string;
  payload: Record<string, unknown>;
  state: ActionState;
  owner: ProcessMark | null;
  outcome: string | null;
  createdAt: number;
  updatedAt: number;
}

export interface Actions {
  /** Does nothing when there is an action of that id. */
  planAction(action: Pick<Action, "id" | "kind" | "subject" | "payload">, event: NewEvent): Promise<void>;
  findAction(id: string): Promise<Action | null>;
  openActions(kind: string): Promise<Action[]>;
  /** Those that are over, newest first. */
  pastActions(kind: string, limit: number): Promise<Action[]>;
  /** Takes an action from the owner it was seen with, or from nobody; false when somebody was faster. */
  takeAction(id: string, from: ProcessMark | null, owner: ProcessMark, at: number): Promise<boolean>;
  noteAction(id: string, payload: Record<string, unknown>, at: number): Promise<void>;
  endAction(id: string, state: "done" | "failed" | "unknown", outcome: string, at: number): Promise<void>;
}

export interface Leases {
  /** Null when the lease is the holder's now; otherwise who has it. `dead` is a holder known to be gone. */
  takeLease(
    name: string,
    holder: ProcessMark,
    dead: ProcessMark | null,
    expiresAt: number,
  ): Promise<ProcessMark | null>;
  dropLease(name: string, holder: ProcessMark): Promise<void>;
  /** How long to wait, so that whatever has this name happens at most once in `everyMs`, however many ask. */
  takeTurn(name: string, everyMs: number, at: number): Promise<number>;
}

export interface Task extends TaskFacts {
  kind: TaskKind;
  parentId: string | null;
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

/** A task that is kept elsewhere. */
export interface MirroredTask extends NewTask {
  status: TaskStatus;
  /** Made there for this very worker. */
  isNew: boolean;
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
  /** In progress; `task_closed` when it is not open any more. */
  claimTask(id: string, at: number, event: NewEvent): Promise<void>;
  /** Ready again, or cancelled, when nothing came of the claim. A task that is closed meanwhile stays so. */
  unclaimTask(
    id: string,
    to: "queued" | "cancelled",
    reason: string | null,
    at: number,
    event: NewEvent,
  ): Promise<void>;
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

export interface Ledger extends Sessions, Workers, UsageRecords, Actions, Leases, Tasks, Events {
  overview(): Promise<Overview>;
  restore(from: Restoration): Promise<{ sessions: number; tasks: number; events: number }>;
  /** The first problems a full check finds; empty when there are none. */
  check(): Promise<string[]>;
  close(): void;
}

/** A process as `pid:start`: a number that is used again means another one. */
export type ProcessMark = string;
