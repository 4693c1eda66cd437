import { inherited } from "../domain/pane-environment.ts";
import { bdAt } from "../effects/beads.ts";
import { newTaskId } from "../effects/ids.ts";
import { logError } from "../effects/logs.ts";
import type { ClosedTask, MirroredTask, NewTask, Task, TaskFilter } from "../store/contract.ts";
import { beadsTracker } from "./beads-tracker.ts";
import { journal, type Project } from "./project.ts";

/** Checked and cleaned; who keeps it gives it an id. */
export type NewWork = Omit<NewTask, "id">;

export interface Close {
  reason: string;
  actor: string;
  at: number;
}

/** A task that a worker is about to get, and what its reservation must put into the ledger for it. */
export interface Work {
  id: string;
  newTask: NewTask | null;
  mirror: MirroredTask | null;
}

/**
 * Where tasks are kept. The ledger decides about workers whatever the tracker: a tracker outside of it is mirrored into
 * the ledger when a worker gets one of its tasks, and told what becomes of it.
 */
export interface Tracker {
  create(task: NewWork): Promise<Task>;
  /** Open ones first, the most urgent first within. */
  list(filter: TaskFilter): Promise<Task[]>;
  find(id: string): Promise<Task | null>;
  close(id: string, close: Close): Promise<ClosedTask>;
  /** A known task, for a worker. */
  takeUp(task: Task, actor: string, at: number): Work;
  /** A new task, for a worker that is made at the same time. */
  begin(task: NewWork): Promise<Work>;
  tellClaimed(id: string): Promise<void>;
  /** Nothing came of the claim, or of a task that was made for a worker: then there is a reason to close it. */
  tellReleased(id: string, reason: string | null): Promise<void>;
  tellDone(id: string, reason: string): Promise<void>;
}

/** The one place that knows which tracker a project has. */
export async function trackerOf(project: Project): Promise<Tracker> {
  const { config } = await project.config();
  const ours = builtinTracker(project);
  if (config.tracker === "builtin") return ours;
  return beadsTracker(project, bdAt(project.paths.root, inherited(project.env)), ours);
}

/** The ledger alone. There is nobody else to be told. */
function builtinTracker(project: Project): Tracker {
  const { ledger } = project;
  return {
    async create(work) {
      const task = { ...work, id: newTaskId() };
      const created = await ledger.createTask(task);
      const data = { task, status: created.status };
      journal(project, [{ at: task.at, type: "task.created", taskId: task.id, data }]);
      return created;
    },
    list: (filter) => ledger.listTasks(filter),
    find: (id) => ledger.findTask(id),
    async close(id, close) {
      const closed = await ledger.closeTask(id, close);
      const { status, reason } = closed.task;
      const queued = closed.queued.map((taskId) => {
        return { at: close.at, type: "task.queued" as const, taskId, data: { after: id } };
      });
      const data = { status, reason, actor: close.actor };
      journal(project, [{ at: close.at, type: "task.closed", taskId: id, data }, ...queued]);
      return closed;
    },
    takeUp: ({ id }) => ({ id, newTask: null, mirror: null }),
    async begin(work) {
      const newTask = { ...work, id: newTaskId() };
      return { id: newTask.id, newTask, mirror: null };
    },
    async tellClaimed() {},
    async tellReleased() {},
    async tellDone() {},
  };
}

/** For what the ledger has recorded already: a tracker that does not listen must not keep the rest from being done. */
export async function tellOrLog(
  project: Project,
  doing: string,
  telling: (tracker: Tracker) => Promise<void>,
): Promise<void> {
  try {
    await telling(await trackerOf(project));
  } catch (error) {
    logError(project.paths, project.clock.now(), doing, error);
  }
}
