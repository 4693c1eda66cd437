import {
  byUrgency,
  type Issue,
  readClosed,
  readIssues,
  toBeadsPriority,
  toMetadata,
} from "../domain/beads.ts";
import { OverseerError } from "../domain/errors.ts";
import { assertTaskId, quote } from "../domain/names.ts";
import { isOpen } from "../domain/task.ts";
import { type Bd, refused } from "../effects/beads.ts";
import type { MirroredTask, Task, TaskFilter } from "../store/contract.ts";
import type { Project } from "./project.ts";
import type { NewWork, Tracker, Work } from "./tracker.ts";

/** Tasks in beads. Where the ledger has one too, because a worker had it, both are closed. */
export function beadsTracker({ ledger, clock }: Project, bd: Bd, ours: Tracker): Tracker {
  const find = async (id: string) => (await askFor(bd, ["show", id]))[0] ?? null;

  const create = async (work: NewWork): Promise<Issue> => {
    const needed = await dependencies(bd, work.dependsOn);
    const input = work.body === "" ? undefined : work.body;
    const [made] = await askFor(bd, createArguments(work), input);
    if (!made) throw refused("create", "it names no issue");
    assertTaskId(made.id);
    const waitsFor = needed.filter(({ status }) => isOpen(status)).map(({ id }) => id);
    const { files, tags, dependsOn } = work;
    const status = waitsFor.length > 0 ? "todo" : "queued";
    return { ...made, status, files: [...files], tags: [...tags], dependsOn: [...dependsOn], waitsFor };
  };

  return {
    create: async (work) => toTask(await create(work)),
    async list(filter) {
      const issues = (await askFor(bd, listArguments(filter))).filter(({ status }) =>
        isWanted(status, filter),
      );
      return issues.toSorted(byUrgency).slice(0, filter.limit).map(toTask);
    },
    async find(id) {
      const issue = await find(id);
      return issue && toTask(issue);
    },
    async close(id, close) {
      const answer = await bd.ask(["close", id, `--reason=${close.reason}`, "--suggest-next"]);
      const closed = answer === null ? null : readClosed(answer);
      const [issue] = closed?.closed ?? [];
      if (!closed || !issue) throw refused("close", `it does not say that ${id} is closed`);
      const known = await ledger.findTask(id);
      if (known && isOpen(known.status)) await ours.close(id, close);
      return { task: toTask(issue), queued: closed.unblocked };
    },
    takeUp: (task, actor, at) => toWork(task, actor, at, false),
    async begin(work) {
      return toWork(toTask(await create(work)), work.actor, clock.now(), true);
    },
    tellClaimed: (id) => change(bd, ["update", id, "--status=in_progress"]),
    async tellReleased(id, reason) {
      if (reason !== null) return await change(bd, ["close", id, `--reason=${reason}`]);
      // Somebody may have closed or put it off there meanwhile.
      if ((await find(id))?.status === "in_progress") await change(bd, ["update", id, "--status=open"]);
    },
    async tellDone(id, reason) {
      if ((await find(id)) !== null) await change(bd, ["close", id, `--reason=${reason}`]);
    },
  };
}

/** Empty when beads knows no such issue. */
async function askFor(bd: Bd, args: readonly [string, ...string[]], input?: string): Promise<Issue[]> {
  const answer = await bd.ask(args, input);
  const issues = answer === null ? [] : readIssues(answer);
  if (issues) return issues;
  throw refused(args[0], `it did not answer with issues: ${JSON.stringify(answer)}`);
}

async function change(bd: Bd, args: readonly [string, string, ...string[]]): Promise<void> {
  const [verb, id] = args;
  if ((await bd.ask(args)) === null) throw refused(verb, `it knows no issue ${quote(id)}`);
}

/** beads itself would create the issue, and only warn. */
async function dependencies(bd: Bd, ids: readonly string[]): Promise<Issue[]> {
  if (ids.length === 0) return [];
  const issues = await askFor(bd, ["show", ...ids]);
  const missing = ids.find((id) => !issues.some((issue) => issue.id === id));
  if (missing === undefined) return issues;
  throw new OverseerError("dependency_unknown", `there is no task ${missing} to depend on`, {
    hint: "overseer task list",
  });
}

/** The text goes through standard input, and options are one word: neither can be taken for another option. */
function createArguments({ title, body, priority, tags, dependsOn, files }: NewWork): [string, ...string[]] {
  return [
    "create",
    `--title=${title}`,
    "--type=task",
    `--priority=${toBeadsPriority(priority)}`,
    ...tags.map((tag) => `--labels=${inList(tag)}`),
    ...dependsOn.map((id) => `--deps=${id}`),
    ...(files.length === 0 ? [] : [`--metadata=${toMetadata(files)}`]),
    ...(body === "" ? [] : ["--body-file=-"]),
  ];
}

/** bd reads its lists as lines of CSV. */
function inList(text: string): string {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function listArguments({ status, isOpen: isOpenOnly }: TaskFilter): [string, ...string[]] {
  if (status === "queued") return ["ready", "--limit=0"];
  const isWithClosed = status === "done" || (status === undefined && !isOpenOnly);
  return ["list", "--limit=0", ...(isWithClosed ? ["--all"] : [])];
}

function isWanted(status: Issue["status"], filter: TaskFilter): boolean {
  return filter.status === undefined ? !filter.isOpen || isOpen(status) : status === filter.status;
}

function toTask(issue: Issue): Task {
  return { ...issue, kind: "task", parentId: null, version: 1 };
}

/** As long as the text of a task of our own may be. */
const MAX_MIRRORED_BODY = 64 * 1024;

function toWork(task: Task, actor: string, at: number, isNew: boolean): Work {
  assertTaskId(task.id);
  const hint = `overseer task show ${task.id}`;
  if (!isOpen(task.status))
    throw new OverseerError("task_closed", `${task.id} is ${task.status} already`, { hint });
  if (task.status === "todo") {
    throw new OverseerError("task_waits", `${task.id} waits for ${task.waitsFor.join(", ")}`, { hint });
  }
  const { id, title, body, priority, files, tags, dependsOn, status } = task;
  const kept = body.slice(0, MAX_MIRRORED_BODY).toWellFormed();
  const mirror: MirroredTask = {
    id,
    title,
    body: kept,
    priority,
    files,
    tags,
    dependsOn,
    status,
    at,
    actor,
    isNew,
  };
  return { id, newTask: null, mirror };
}
