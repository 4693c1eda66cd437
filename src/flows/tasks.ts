import { OverseerError } from "../domain/errors.ts";
import { assertTaskId, quote } from "../domain/names.ts";
import { nearestFew } from "../domain/nearest.ts";
import type { ClosedTask, Task, TaskFilter } from "../store/contract.ts";
import { announceCompletion } from "./complete.ts";
import { type Caller, cleaner, type Project } from "./project.ts";
import { type NewWork, trackerOf } from "./tracker.ts";

export type { Task };

export const MAX_TITLE = 200;
const MAX_BODY = 64 * 1024;

export type TaskDraft = Omit<NewWork, "at" | "actor">;

/** Checked and cleaned, and nowhere yet. */
export async function draftTask(project: Project, caller: Caller, draft: TaskDraft): Promise<NewWork> {
  assertDraft(draft);
  const clean = await cleaner(project);
  return {
    ...draft,
    title: clean(draft.title.trim()),
    body: clean(draft.body),
    at: project.clock.now(),
    actor: caller.name,
  };
}

export async function createTask(project: Project, caller: Caller, draft: TaskDraft): Promise<Task> {
  const work = await draftTask(project, caller, draft);
  return await (await trackerOf(project)).create(work);
}

/**
 * A worker says that it is done: what follows, its next Stop carries out. Anybody else closes the task at once.
 */
export async function closeTask(
  project: Project,
  caller: Caller,
  id: string,
  reason: string,
): Promise<ClosedTask> {
  assertTaskId(id);
  if (reason.trim() === "") {
    throw new OverseerError("usage", "the reason is empty", {
      hint: 'say what was done with --reason "..."',
    });
  }
  if (caller.kind === "worker" && caller.session.taskId !== id) {
    throw new OverseerError("not_you", `${quote(id)} is not the task of ${caller.name}`, {
      hint: caller.session.taskId
        ? `overseer task close ${caller.session.taskId} --reason "..."`
        : "you have no task",
    });
  }
  const clean = (await cleaner(project))(reason.trim());
  if (caller.kind === "worker") {
    await announceCompletion(project, caller.session, clean);
    return { task: await workersTask(project, id), queued: [] };
  }
  const task = await showTask(project, id);
  await assertNobodyAtIt(project, task.id);
  return await markDone(project, task.id, clean, caller.name);
}

/** Its worker would never be done with a task that is closed already. */
async function assertNobodyAtIt(project: Project, id: string): Promise<void> {
  const [worker] = (await project.ledger.liveWorkers(-1)).filter(({ taskId }) => taskId === id);
  if (!worker) return;
  throw new OverseerError("task_taken", `${worker.name} works on ${id}`, {
    hint: `let it finish, or overseer stop ${worker.name} first`,
  });
}

export async function markDone(
  project: Project,
  id: string,
  reason: string,
  actor: string,
): Promise<ClosedTask> {
  return await (await trackerOf(project)).close(id, { reason, actor, at: project.clock.now() });
}

/** Open ones first, the most urgent first within. */
export async function listTasks(project: Project, filter: TaskFilter): Promise<Task[]> {
  return await (await trackerOf(project)).list(filter);
}

export async function showTask(project: Project, id: string): Promise<Task> {
  assertTaskId(id);
  const tracker = await trackerOf(project);
  const task = await tracker.find(id);
  if (task) return task;
  const known = (await tracker.list({})).map((other) => other.id);
  const begun = known
    .filter((other) => other.startsWith(id))
    .slice(-3)
    .toReversed();
  throw unknownTask(id, begun.length > 0 ? begun : nearestFew(id, known, 3));
}

/** As the ledger has it, which is what decides about a worker. */
export async function workersTask({ ledger }: Project, id: string): Promise<Task> {
  const task = await ledger.findTask(id);
  if (task) return task;
  throw unknownTask(id, []);
}

function unknownTask(id: string, near: readonly string[]): OverseerError {
  return new OverseerError("task_unknown", `there is no task ${quote(id)}`, {
    hint: near.length > 0 ? `did you mean ${near.join(" or ")}?` : "overseer task list",
  });
}

function assertDraft(draft: TaskDraft): void {
  const refuse = (what: string, hint: string) => {
    throw new OverseerError("usage", what, { hint });
  };
  if (draft.title.trim() === "") refuse("the title is empty", 'overseer task create "what is to be done"');
  if (draft.title.length > MAX_TITLE) {
    refuse(
      `the title has ${draft.title.length} characters, at most ${MAX_TITLE} are allowed`,
      "put the rest into --body",
    );
  }
  if (draft.title.includes("\n")) refuse("the title has several lines", "put the rest into --body");
  if (new TextEncoder().encode(draft.body).length > MAX_BODY) {
    refuse(`the body has more than ${MAX_BODY} bytes`, "commit the text to a file and name it in the body");
  }
  for (const id of draft.dependsOn) assertTaskId(id);
}
