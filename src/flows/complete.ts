import { OverseerError } from "../domain/errors.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { completionId } from "../domain/session.ts";
import { isOpen } from "../domain/task.ts";
import { exists } from "../effects/files.ts";
import { logError } from "../effects/logs.ts";
import { agentFiles } from "../effects/paths.ts";
import { isAlive } from "../effects/processes.ts";
import { changedFiles, commitOf, countCommits, uncommitted } from "../effects/worktrees.ts";
import type { NewMergeEntry, Session } from "../store/contract.ts";
import { growIdentity } from "./identity.ts";
import { leavePane } from "./launch.ts";
import { selfMark } from "./lease.ts";
import { sendOurs } from "./mail.ts";
import { journal, logSession, type Project, sessionEvent } from "./project.ts";
import { assertOurs } from "./running.ts";
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
  const shown =
    dirty.length > 10 ? `${dirty.slice(0, 10).join(", ")} and ${dirty.length - 10} more` : dirty.join(", ");
  throw new OverseerError("worktree_dirty", `there are uncommitted changes in ${shown}`, {
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

/** What a worker that has finished leaves to be merged; null when it committed nothing of its own. */
interface Outcome {
  entry: NewMergeEntry | null;
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
  await ledger.endAction(id, "done", outcome.entry?.id ?? "nothing to merge", project.clock.now());
  return true;
}

async function outcomeOf(project: Project, session: Session): Promise<Outcome> {
  const { git, paths } = project;
  const { config } = await project.config();
  const { branch, baseCommit, worktree } = session;
  const tip = branch === null ? null : await commitOf(git, paths.root, `refs/heads/${branch}`);
  const hasWorktree = worktree !== null && exists(worktree);
  const dirty = hasWorktree ? await uncommitted(git, worktree, agentFiles(paths, session.name).excludes) : [];
  if (branch === null || tip === null || baseCommit === null) return { entry: null, files: [], dirty };
  if ((await countCommits(git, paths.root, baseCommit, tip)) === 0) return { entry: null, files: [], dirty };
  const files = await changedFiles(git, paths.root, baseCommit, tip);
  const into = config.project.canonicalBranch;
  return {
    entry: { id: `mrg-${session.id.replace(/^ses-/, "")}`, branch, commit: tip, into, files },
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
  const { entry } = outcome;
  const event = sessionEvent(session, "session.completed", at, { reason, entry: entry?.id ?? null });
  const { queued } = await project.ledger.completeSession(session.id, { entry, reason, at }, event);
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
  const { entry, files, dirty } = outcome;
  const what = entry
    ? `Its branch ${entry.branch} (${entry.commit.slice(0, 10)}, ${files.length === 1 ? "1 file" : `${files.length} files`}) waits to be merged into ${entry.into}. Look at it with: overseer diff ${session.name}`
    : "It committed nothing, so there is nothing to merge.";
  const left =
    dirty.length === 0 ? "" : `\nLeft uncommitted in its worktree: ${dirty.slice(0, 10).join(", ")}`;
  await sendOurs(project, {
    id: `msg-${completionId(session.id)}`,
    from: session.name,
    to: await whoLooksAfter(project, session),
    subject: `${session.name} has finished ${session.taskId ?? "its task"}`,
    body: `${reason}\n\n${what}${left}`,
    type: "result",
    priority: "normal",
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
