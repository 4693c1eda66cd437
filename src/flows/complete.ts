import { OverseerError } from "../domain/errors.ts";
import { outsideScope } from "../domain/guard.ts";
import { readFacts } from "../domain/guard-facts.ts";
import { definitionFor, isReadOnly } from "../domain/manifest.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { completionId } from "../domain/session.ts";
import { isOpen } from "../domain/task.ts";
import { exists, readBytes } from "../effects/files.ts";
import { logError } from "../effects/logs.ts";
import { agentFiles } from "../effects/paths.ts";
import { isAlive } from "../effects/processes.ts";
import { changedFiles, commitOf, countCommits, uncommitted } from "../effects/worktrees.ts";
import type { NewMergeEntry, Session } from "../store/contract.ts";
import { growIdentity } from "./identity.ts";
import { leavePane } from "./launch.ts";
import { selfMark } from "./lease.ts";
import { ownBase } from "./look.ts";
import { sendOurs } from "./mail.ts";
import { loadManifest } from "./manifest.ts";
import { journal, logSession, type Project, sessionEvent } from "./project.ts";
import { assertOurs } from "./running.ts";
import { trackerOf } from "./tracker.ts";
import { recordUsage } from "./usage.ts";

/** `task close` by a worker: it has finished, as far as it can tell. Its next Stop carries it out. */
export async function announceCompletion(project: Project, session: Session, reason: string): Promise<void> {
  const task = session.taskId === null ? null : await project.ledger.findTask(session.taskId);
  if (task && !isOpen(task.status)) {
    throw new OverseerError("task_closed", `${task.id} is ${task.status} already`, { hint: "end your turn" });
  }
  await assertNobodyBelow(project, session);
  if (session.worktree !== null) {
    await assertCommitted(project, session.name, session.worktree);
    await assertHome(project, session.worktree, session.branch);
    await assertOwnFiles(project, session);
  }
  const event = sessionEvent(session, "session.completing", project.clock.now(), { reason });
  const id = completionId(session.id);
  await project.ledger.planAction(
    { id, kind: "complete", subject: session.name, payload: { reason } },
    event,
  );
  // Said again, with other words: the last ones count.
  await project.ledger.noteAction(id, { reason }, event.at);
  logSession(project, session, event);
}

/** Their results would reach a session that has gone. */
async function assertNobodyBelow(project: Project, { name }: Session): Promise<void> {
  const below = (await project.ledger.liveWorkers(-1)).filter(({ parent }) => parent === name);
  if (below.length === 0) return;
  const names = below.map((worker) => worker.name);
  throw new OverseerError(
    "workers_present",
    `${names.join(", ")} still ${names.length === 1 ? "works" : "work"} for you`,
    {
      hint: `overseer wait ${names.join(" ")} --timeout 9m, or overseer stop each of them`,
    },
  );
}

async function assertCommitted({ git, paths }: Project, name: string, worktree: string): Promise<void> {
  const dirty = await uncommitted(git, worktree, agentFiles(paths, name).excludes);
  if (dirty.length === 0) return;
  throw new OverseerError("worktree_dirty", `there are uncommitted changes in ${fewOf(dirty)}`, {
    hint: "commit what belongs to the task, remove or ignore the rest, then close it again",
  });
}

/** Only its branch is handed in: what was committed on another, or on none, would be left behind. */
async function assertHome({ git }: Project, worktree: string, branch: string | null): Promise<void> {
  if (branch === null) return;
  const { exitCode } = await git.run(worktree, [
    "merge-base",
    "--is-ancestor",
    "HEAD",
    `refs/heads/${branch}`,
  ]);
  if (exitCode === 0) return;
  throw new OverseerError("branch_left", `what you committed is not on your branch ${branch}`, {
    hint: `git switch ${branch}, bring it there (git merge or git cherry-pick), then close it again`,
  });
}

/** Said to the worker, who can take them out: what slips through is held when its branch is enqueued. */
async function assertOwnFiles(project: Project, session: Session): Promise<void> {
  const work = await workOf(project, session);
  if (work === null || work.outside.length === 0) return;
  const base = work.base.slice(0, 10);
  const hint = work.isReader
    ? `git reset --hard ${base}, say in a mail what you would change, then close it again`
    : `take them out (git checkout ${base} -- FILE, or git rm FILE where it is new), commit, then close it again; if the task needs them, ask ${session.parent ?? ORCHESTRATOR}`;
  throw new OverseerError("scope_outside", whyHeld(session, work), { hint });
}

/** What is on a worker's branch and did not come from the canonical one. */
interface Work {
  tip: string;
  base: string;
  files: string[];
  isReader: boolean;
  /** Those of the files that are not its to change. */
  outside: string[];
}

/** Null when it committed nothing. */
async function workOf(project: Project, session: Session): Promise<Work | null> {
  const { git, paths } = project;
  const { branch, baseCommit, fileScope } = session;
  const tip = branch === null ? null : await commitOf(git, paths.root, `refs/heads/${branch}`);
  if (tip === null || baseCommit === null) return null;
  if ((await countCommits(git, paths.root, baseCommit, tip)) === 0) return null;
  const base = await ownBase(project, paths.root, baseCommit, tip);
  const files = await changedFiles(git, paths.root, base, tip);
  const isReader = await isReaderNow(project, session);
  return { tip, base, files, isReader, outside: outsideScope(files, { fileScope, isReadOnly: isReader }) };
}

/** By its role; where the manifest cannot be read, by what stood there when the worker was started. */
async function isReaderNow(project: Project, { name, capability }: Session): Promise<boolean> {
  try {
    const definition = definitionFor(await loadManifest(project), capability);
    if (definition) return isReadOnly(definition);
  } catch (error) {
    if (!(error instanceof OverseerError && error.code === "manifest_invalid")) throw error;
  }
  const text = readBytes(agentFiles(project.paths, name).guard)?.toString("utf8") ?? null;
  return readFacts(text)?.isReadOnly === true;
}

function whyHeld({ capability, fileScope }: Session, { outside, isReader }: Work): string {
  const shown = fewOf(outside);
  if (isReader) return `a ${capability} changes nothing, but its branch has changes in ${shown}`;
  return `outside of its files (${fileScope.join(", ")}) it changes ${shown}`;
}

function fewOf(files: readonly string[]): string {
  return files.length > 10
    ? `${files.slice(0, 10).join(", ")} and ${files.length - 10} more`
    : files.join(", ");
}

/** What a worker that has finished leaves to be merged; null when it committed nothing of its own. */
interface Outcome {
  entry: NewMergeEntry | null;
  /** Why the entry must not be merged as it is. */
  heldFor: string | null;
  files: string[];
  /** Changed after the task was closed, and in no commit. */
  dirty: string[];
}

/**
 * Carries out what a worker announced: the branch into the queue, the result to the parent, the identity, the pane.
 * Killed anywhere, it is done again by whoever comes by, and has happened once. False when somebody else is at it.
 */
export async function finishCompletion(project: Project, session: Session): Promise<boolean> {
  try {
    return await finish(project, session);
  } catch (error) {
    // A hook started this and hears nothing of it.
    logError(project.paths, project.clock.now(), `finishing ${session.name}`, error);
    throw error;
  }
}

async function finish(project: Project, session: Session): Promise<boolean> {
  assertOurs(project, session);
  const { ledger } = project;
  const id = completionId(session.id);
  const action = await ledger.findAction(id);
  if (action === null || (action.owner !== null && (await isAlive(action.owner)))) return false;
  if (!(await ledger.takeAction(id, action.owner, await selfMark(), project.clock.now()))) return false;
  const reason = String(action.payload.reason ?? "");
  const outcome = await outcomeOf(project, session);
  await recordCompletion(project, session, reason, outcome);
  await mailResult(project, session, reason, outcome);
  await writeIdentity(project, session, reason, outcome);
  await leavePane(project, session);
  await recordUsage(project, session);
  if (outcome.entry === null && session.taskId !== null) {
    await (await trackerOf(project)).tellDone(session.taskId, reason);
  }
  await ledger.endAction(id, "done", outcome.entry?.id ?? "nothing to merge", project.clock.now());
  return true;
}

async function outcomeOf(project: Project, session: Session): Promise<Outcome> {
  const { git, paths } = project;
  const { config } = await project.config();
  const { branch, worktree } = session;
  const hasWorktree = worktree !== null && exists(worktree);
  const dirty = hasWorktree ? await uncommitted(git, worktree, agentFiles(paths, session.name).excludes) : [];
  const work = await workOf(project, session);
  if (branch === null || work === null) return { entry: null, heldFor: null, files: [], dirty };
  const { tip, files, outside } = work;
  const into = config.project.canonicalBranch;
  return {
    entry: { id: `mrg-${session.id.replace(/^ses-/, "")}`, branch, commit: tip, into, files },
    heldFor: outside.length === 0 ? null : whyHeld(session, work),
    files,
    dirty,
  };
}

async function recordCompletion(
  project: Project,
  session: Session,
  reason: string,
  outcome: Outcome,
): Promise<void> {
  const at = project.clock.now();
  const { entry, heldFor } = outcome;
  const event = sessionEvent(session, "session.completed", at, { reason, entry: entry?.id ?? null, heldFor });
  const completion = { entry, heldFor, reason, at };
  const { queued } = await project.ledger.completeSession(session.id, completion, event);
  logSession(project, session, event);
  if (entry !== null || session.taskId === null) return;
  const data = { status: "done", reason, actor: session.name };
  journal(project, [
    { at, type: "task.closed", taskId: session.taskId, data },
    ...queued.map((taskId) => ({
      at,
      type: "task.queued" as const,
      taskId,
      data: { after: session.taskId },
    })),
  ]);
}

async function mailResult(
  project: Project,
  session: Session,
  reason: string,
  outcome: Outcome,
): Promise<void> {
  const { entry, heldFor, files, dirty } = outcome;
  const { name } = session;
  const count = files.length === 1 ? "1 file" : `${files.length} files`;
  const branch = entry ? `Its branch ${entry.branch} (${entry.commit.slice(0, 10)}, ${count})` : "";
  const what =
    entry === null
      ? "It committed nothing, so there is nothing to merge."
      : heldFor === null
        ? `${branch} waits to be merged into ${entry.into}. Look at it with: overseer diff ${name}`
        : `${branch} is held and will not be merged: ${heldFor}. Look at it with: overseer diff ${name}. To have that taken out, write to ${name} what to do, then: overseer resume ${name}. To accept it as it is, land it by hand.`;
  const left =
    dirty.length === 0 ? "" : `\nLeft uncommitted in its worktree: ${dirty.slice(0, 10).join(", ")}`;
  await sendOurs(project, {
    id: `msg-${completionId(session.id)}`,
    from: session.name,
    to: await whoLooksAfter(project, session),
    subject: `${name} has finished ${session.taskId ?? "its task"}${heldFor === null ? "" : ", and its branch is held"}`,
    body: `${reason}\n\n${what}${left}`,
    type: "result",
    priority: heldFor === null ? "normal" : "high",
  });
}

/** The parent, or whoever is above a parent that has come to its end. */
async function whoLooksAfter(project: Project, session: Session): Promise<string> {
  const asked = new Set([session.name]);
  for (let name = session.parent; name !== null && !asked.has(name); ) {
    asked.add(name);
    const above = await project.ledger.currentSession(name);
    if (above?.state !== "completed" && above?.state !== "failed") return name;
    name = above.parent;
  }
  return ORCHESTRATOR;
}

async function writeIdentity(
  project: Project,
  session: Session,
  reason: string,
  outcome: Outcome,
): Promise<void> {
  if (session.taskId === null) return;
  const task = await project.ledger.findTask(session.taskId);
  const ended = (await project.ledger.findSession({ sessionId: session.id }))?.session.endedAt;
  growIdentity(project, session, {
    sessionId: session.id,
    taskId: session.taskId,
    title: task?.title ?? "",
    summary: reason,
    completedAt: new Date(ended ?? project.clock.now()).toISOString(),
    branch: outcome.entry?.branch ?? null,
    files: outcome.files,
  });
}
