import { formatDuration } from "../domain/duration.ts";
import { OverseerError } from "../domain/errors.ts";
import type { Definition } from "../domain/manifest.ts";
import { assertAgentName, isTaskId, nameTaken, quote } from "../domain/names.ts";
import { isLive } from "../domain/session.ts";
import { typed } from "../domain/shell-word.ts";
import { firstPrompt, type SpawnStep, spawnPause } from "../domain/spawn.ts";
import { exists, kindOf, readBytes, realPath } from "../effects/files.ts";
import { processMark } from "../effects/processes.ts";
import { addWorktree, commitOf, listWorktrees } from "../effects/worktrees.ts";
import type { Session, Task } from "../store/contract.ts";
import { release } from "./clean.ts";
import { expertiseFor, type Notice } from "./expertise.ts";
import { assertLive, assertPrograms, awaitStart, launch } from "./launch.ts";
import { selfMark, withLease } from "./lease.ts";
import {
  discard,
  examineLeavings,
  isSafe,
  type Leavings,
  nobody,
  refusal,
  worktreePath,
} from "./leavings.ts";
import { type Lineage, lineageOf } from "./lineage.ts";
import { chooseDefinition, loadManifest } from "./manifest.ts";
import { type Brief, copyIncluded, runSetup, userHooks, writeInstructions } from "./prepare.ts";
import { type Caller, cleaner, journal, type Project, sessionEvent } from "./project.ts";
import { type Registered, registerWorker } from "./register.ts";
import { repairWorkers, undoSpawn } from "./repair.ts";
import { draftTask, MAX_TITLE, showTask, workersTask } from "./tasks.ts";
import { tellOrLog, trackerOf, type Work } from "./tracker.ts";

export interface SlingRequest {
  /** A task's id, or the text of a new one. */
  what: string;
  name: string;
  capability: string;
  spec: string | undefined;
  files: readonly string[];
  model: string | undefined;
  parent: string | undefined;
  depth: number | undefined;
  base: string | undefined;
  isWaiting: boolean;
  notice: Notice;
}

/** Everything that can be refused before anything is made. */
interface Plan {
  bin: string;
  definition: Definition;
  lineage: Lineage;
  work: Work;
  spec: Brief["spec"];
  base: { name: string; commit: string };
  model: string | null;
  worktree: string;
  branch: string;
  /** Of a finished worker of that name, safe to remove. */
  leavings: Leavings | null;
  previous: Session | null;
}

/**
 * Slings a worker: reserve, worktree, prepare, claim, launch, confirm. Each step is noted before it is done. A step
 * that fails undoes those before it; what a killed sling leaves is undone by the next one.
 */
export async function sling(project: Project, caller: Caller, request: SlingRequest): Promise<Session> {
  assertAgentName(request.name);
  await repairWorkers(project);
  const plan = await planSpawn(project, caller, request);
  const registered = await reserve(project, request, plan).catch((error: unknown) =>
    withdraw(project, request.name, plan.work, error),
  );
  const { session } = registered;
  try {
    await makeWorktree(project, session, plan);
    const brief = await prepare(project, session, plan, request.notice);
    await claim(project, session, brief.task);
    await note(project, session, "launch");
    const start = {
      bin: plan.bin,
      session: { kind: "new" as const, id: crypto.randomUUID() },
      model: plan.model,
      prompt: firstPrompt({ ...session, taskId: brief.task.id, title: brief.task.title }),
    };
    await launch(project, registered, start);
    return await confirm(project, session, request.isWaiting);
  } catch (error) {
    await undoSpawn(project, session, error);
    throw error;
  }
}

async function planSpawn(project: Project, caller: Caller, request: SlingRequest): Promise<Plan> {
  assertModel(request.model);
  const manifest = await loadManifest(project);
  userHooks(project);
  const definition = chooseDefinition(manifest, request.capability);
  const bin = await assertPrograms(project);
  const lineage = await lineageOf(project, caller, manifest, definition, request);
  await assertNoPause(project);
  const { config } = await project.config();
  const [base, worktree] = await Promise.all([
    baseOf(project, request.base),
    worktreePath(project, request.name),
  ]);
  const spec = readSpec(project, request.spec);
  const model = request.model ?? config.agents.model ?? definition.model;
  const previous = await project.ledger.currentSession(request.name);
  const leavings = await removableLeavings(project, request.name, previous);
  // The last that can be refused for what was typed: with a tracker elsewhere, a new task is made there now.
  const work = await workOf(project, caller, request);
  const branch = `overseer/${request.name}/${work.id}`;
  await assertFreeBranch(project, branch, leavings?.branch ?? null).catch((error: unknown) =>
    withdraw(project, request.name, work, error),
  );
  return { bin, definition, lineage, work, spec, base, model, worktree, branch, leavings, previous };
}

/** A task that was made elsewhere for a worker that is refused is closed there. Killed before, it stays open. */
async function withdraw(project: Project, name: string, { id, mirror }: Work, why: unknown): Promise<never> {
  if (mirror?.isNew) {
    await tellOrLog(project, `closing ${id}`, (tracker) =>
      tracker.tellReleased(id, `${name} could not be started`),
    );
  }
  throw why;
}

async function assertNoPause(project: Project): Promise<void> {
  const past = await project.ledger.pastActions("spawn", 10);
  const outcomes = past.map(({ state, updatedAt }) => ({ isFailure: state === "failed", at: updatedAt }));
  const pauseMs = spawnPause(outcomes, project.clock.now());
  if (pauseMs === 0) return;
  const why = past[0]?.outcome?.split("\n")[0] ?? "";
  throw new OverseerError(
    "spawn_paused",
    `the last spawns all failed (${why}); the next may be in ${formatDuration(Math.max(pauseMs, 1_000))}`,
    {
      hint: "overseer doctor; overseer events --type session.spawn_failed",
    },
  );
}

async function workOf(project: Project, caller: Caller, { what, files }: SlingRequest): Promise<Work> {
  const tracker = await trackerOf(project);
  if (isTaskId(what)) {
    const task = await knownTask(project, what);
    const clean = await cleaner(project);
    const cleaned = { ...task, title: clean(task.title), body: clean(task.body) };
    return tracker.takeUp(cleaned, caller.name, project.clock.now());
  }
  if (!/\S\s+\S/.test(what)) {
    throw new OverseerError(
      "task_id_invalid",
      `${quote(what)} is neither a task's id nor a text of several words`,
      {
        hint: 'overseer task list; or say what is to be done: overseer sling "Add a login form" ...',
      },
    );
  }
  const draft = { ...titleAndBody(what.trim()), priority: "normal" as const, tags: [], dependsOn: [] };
  return await tracker.begin(await draftTask(project, caller, { ...draft, files }));
}

/** One word may as well have been meant as the text of a new task. */
async function knownTask(project: Project, id: string): Promise<Task> {
  try {
    return await showTask(project, id);
  } catch (error) {
    if (!(error instanceof OverseerError) || error.code !== "task_unknown") throw error;
    const near = error.hint === undefined ? "" : `${error.hint}; `;
    throw new OverseerError("task_unknown", error.message, {
      hint: `${near}for a new task, say in several words what is to be done, in quotes: overseer sling "Add a login form" ...`,
      cause: error,
    });
  }
}

/** A first line that is too long for a title is told in full below it. */
function titleAndBody(text: string): { title: string; body: string } {
  const [first = "", ...rest] = text.split("\n");
  if (first.length <= MAX_TITLE) return { title: first, body: rest.join("\n").trim() };
  const cut = first.slice(0, MAX_TITLE - 1);
  const words = cut.slice(0, cut.lastIndexOf(" ") + 1 || undefined).trimEnd();
  return { title: `${words}\u2026`, body: text };
}

/** It becomes an argument of claude's. */
function assertModel(model: string | undefined): void {
  if (model === undefined || /^[^\s\p{Cc}-][^\s\p{Cc}]*$/u.test(model)) return;
  throw new OverseerError("usage", `--model takes the name of a model, not ${quote(model)}`, {
    hint: "leave --model out, or say something like --model opus",
  });
}

async function baseOf(project: Project, given: string | undefined): Promise<Plan["base"]> {
  const { config } = await project.config();
  const name = given ?? config.project.canonicalBranch;
  const commit = await commitOf(project.git, project.paths.root, given ?? `refs/heads/${name}`);
  if (commit !== null) return { name, commit };
  const what = given === undefined ? `the canonical branch ${quote(name)}` : quote(name);
  throw new OverseerError("base_unknown", `${what} is not a commit of this repository`, {
    hint: given === undefined ? "set project.canonicalBranch in .overseer/config.yaml" : "git branch --list",
  });
}

const MAX_SPEC_BYTES = 256 * 1024;

/** A file inside the repository, also where links lead. */
export function readSpec({ paths, cwd }: Project, given: string | undefined): Brief["spec"] {
  if (given === undefined) return null;
  const refuse = (why: string) =>
    new OverseerError("spec_unreadable", `${quote(given)} ${why}`, {
      hint: "--spec takes a file of this repository",
    });
  const candidates = given.startsWith("/") ? [given] : [`${cwd}/${given}`, `${paths.root}/${given}`];
  const found = candidates.find((file) => exists(file));
  if (found === undefined) throw refuse("is not there");
  const real = realPath(found);
  if (kindOf(real) !== "file") throw refuse("is not a file");
  if (!real.startsWith(`${paths.root}/`)) throw refuse("is outside of this repository");
  const bytes = readBytes(real);
  if (bytes === null || bytes.length > MAX_SPEC_BYTES) throw refuse(`is longer than ${MAX_SPEC_BYTES} bytes`);
  if (bytes.includes(0)) throw refuse("is not text");
  return { path: real.slice(paths.root.length + 1), text: bytes.toString("utf8") };
}

/** What a finished worker of that name left goes if nothing of it can be lost; otherwise the spawn is refused. */
async function removableLeavings(
  project: Project,
  name: string,
  previous: Session | null,
): Promise<Leavings | null> {
  if (previous && isLive(previous.state)) throw nameTaken(name);
  const place = await worktreePath(project, name);
  // Nobody of that name was ever here: whatever is there is the user's.
  if (!previous && kindOf(place) !== "missing") throw placeTaken(place);
  const leavings = await (previous ? examineLeavings(project, previous) : staleRecord(project, name, place));
  if (leavings && !isSafe(leavings)) throw refusal(leavings, previous);
  return leavings;
}

async function assertFreeBranch(project: Project, branch: string, own: string | null): Promise<void> {
  const way = await branchInTheWay(project, branch, own);
  if (way === null) return;
  throw new OverseerError("branch_exists", `there is a branch ${way} already`, {
    hint: `choose another name, or: git branch -m ${way} another/name`,
  });
}

/** git may remember a worktree in that place that has gone with an earlier ledger. */
async function staleRecord(project: Project, name: string, place: string): Promise<Leavings | null> {
  const record = (await listWorktrees(project.git, project.paths.root)).find(({ path }) => path === place);
  if (record === undefined) return null;
  if (record.branch?.startsWith(`overseer/${name}/`)) return await examineLeavings(project, nobody(name));
  throw new OverseerError("worktree_left", `git has a record of a worktree at ${place}, which is gone`, {
    hint: `choose another name, or, if you do not need it: git worktree remove ${typed(place)}`,
  });
}

function placeTaken(worktree: string): OverseerError {
  return new OverseerError("worktree_left", `${worktree} is there, and is no worker's`, {
    hint: "choose another name, or move it away",
  });
}

/** git keeps branches as files and folders: one called overseer/ada leaves no room for overseer/ada/t-1. */
async function branchInTheWay(
  { git, paths }: Project,
  branch: string,
  own: string | null,
): Promise<string | null> {
  const list = ["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/overseer"];
  const isInTheWay = (other: string) =>
    other !== own && (`${branch}/`.startsWith(`${other}/`) || other.startsWith(`${branch}/`));
  const branches = (await git.ask(paths.root, list)).split("\n");
  return branches.find((other) => other !== "" && isInTheWay(other)) ?? null;
}

async function reserve(project: Project, request: SlingRequest, plan: Plan): Promise<Registered> {
  const { config } = await project.config();
  const registration = {
    name: request.name,
    capability: request.capability,
    taskId: plan.work.id,
    worktree: plan.worktree,
    branch: plan.branch,
    baseCommit: plan.base.commit,
    model: plan.model,
    ...plan.lineage,
  };
  const reservation = {
    owner: await selfMark(),
    maxConcurrent: config.agents.maxConcurrent,
    newTask: plan.work.newTask,
    mirror: plan.work.mirror,
    notes: { spec: plan.spec && `${project.paths.root}/${plan.spec.path}`, base: plan.base.name },
  };
  return await registerWorker(project, registration, reservation);
}

/** Somebody may have stopped it meanwhile: then what was made is taken back. */
async function note(project: Project, { id }: Session, step: SpawnStep): Promise<void> {
  const session = (await project.ledger.findSession({ sessionId: id }))?.session;
  if (session) assertLive(session);
  await project.ledger.noteAction(id, { step }, project.clock.now());
}

async function makeWorktree(project: Project, session: Session, plan: Plan): Promise<void> {
  // Before that is noted: whatever is found in that place after it was made for this worker.
  await clearPlace(project, session, plan);
  await note(project, session, "worktree");
  const { git, paths } = project;
  const { worktree: path, branch, base } = plan;
  await stagger(project);
  await withLease(project, "worktrees", () =>
    addWorktree(git, paths.root, { path, branch, commit: base.commit }, async (pid) => {
      await project.ledger.noteAction(session.id, { git: await processMark(pid) }, project.clock.now());
    }),
  );
}

/** What a finished worker of that name left, and what the ledger still says of it. */
async function clearPlace(project: Project, { id, name }: Session, plan: Plan): Promise<void> {
  const { leavings, previous } = plan;
  if (previous) await project.ledger.noteAction(id, { clears: previous.id }, project.clock.now());
  if (leavings) await discard(project, leavings, previous ?? nobody(name));
  if (previous && previous.worktree !== null) await release(project, previous, false, null);
}

/** `agents.staggerDelay`: a pause since the last one was begun. */
async function stagger(project: Project): Promise<void> {
  const { staggerDelay } = (await project.config()).config.agents;
  if (staggerDelay === 0) return;
  await Bun.sleep(await project.ledger.takeTurn("spawn", staggerDelay, project.clock.now()));
}

async function prepare(project: Project, session: Session, plan: Plan, notice: Notice): Promise<Brief> {
  await note(project, session, "prepare");
  const task = await workersTask(project, plan.work.id);
  const { definition, spec, base, worktree } = plan;
  const handoff = await handoffOf(project, session);
  const expertise = await expertiseFor(project, worktree, notice);
  const brief = { task, definition, spec, base: base.name, handoff, expertise };
  await writeInstructions(project, session, brief);
  await copyIncluded(project, worktree);
  await runSetup(project, session, async (mark) => {
    await project.ledger.noteAction(session.id, { setup: mark }, project.clock.now());
  });
  return brief;
}

/** What the last one that had this task said and left, if it was somebody else or another time. */
export async function handoffOf(project: Project, session: Session): Promise<string> {
  const sessions = await project.ledger.pastSessions({ taskId: session.taskId ?? "" });
  const before = sessions.find(({ id, state }) => id !== session.id && state !== "failed");
  if (!before) return "";
  const events = await project.ledger.listEvents({
    agent: before.name,
    type: "session.turn_ended",
    limit: 1,
  });
  const words = events[0]?.sessionId === before.id ? events[0].data.message : null;
  const said = typeof words === "string" && words !== "" ? `\nIts last words: ${words}` : "";
  return `${before.name} had this task before and is ${before.state} now (${before.cause}). Its branch: ${before.branch ?? "none"}.${said}`;
}

async function claim(project: Project, session: Session, task: Task): Promise<void> {
  await note(project, session, "claim");
  const at = project.clock.now();
  const event = sessionEvent(session, "task.claimed", at, { by: session.name });
  await project.ledger.claimTask(task.id, at, event);
  journal(project, [event]);
  await (await trackerOf(project)).tellClaimed(task.id);
}

/** Whoever does not wait leaves it to the next sling, or to doctor, to find a worker that never began. */
async function confirm(project: Project, session: Session, isWaiting: boolean): Promise<Session> {
  await note(project, session, "confirm");
  const started = isWaiting ? await awaitStart(project, session.id) : null;
  await project.ledger.endAction(session.id, "done", started ? "started" : "launched", project.clock.now());
  return started ?? (await project.ledger.findSession({ sessionId: session.id }))?.session ?? session;
}
