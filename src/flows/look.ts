import { OverseerError } from "../domain/errors.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { renewWorktree } from "../domain/need.ts";
import { isLive } from "../domain/session.ts";
import { exists, listFolder, readBytes, remove } from "../effects/files.ts";
import { agentFiles } from "../effects/paths.ts";
import { commitOf, overlooking, uncommitted } from "../effects/worktrees.ts";
import type { Action, MergeEntry, Session, StoredEvent, Task } from "../store/contract.ts";
import { readIdentity } from "./identity.ts";
import { paneOf, screenOf, tmuxSessionOf } from "./launch.ts";
import type { Project } from "./project.ts";
import { isRunning } from "./running.ts";

/** The text of a worker's pane. */
export async function readPane(project: Project, session: Session, linesBefore: number): Promise<string> {
  if (await paneOf(project, session)) return await screenOf(project, session, linesBefore);
  throw noPane(session);
}

function noPane({ name, state }: Session): OverseerError {
  return new OverseerError("pane_missing", `${name} is ${state} and has no pane`, {
    hint: isLive(state) ? `overseer resume ${name}` : `overseer logs ${name}`,
  });
}

/** The command that shows the pane, for whoever has a terminal to show it in. */
export async function attachCommand(project: Project, session: Session): Promise<string[]> {
  if (!(await paneOf(project, session))) throw noPane(session);
  return (await project.tmux()).attachCommand(tmuxSessionOf(session.name));
}

export async function attachPane(project: Project, session: Session): Promise<void> {
  await attachCommand(project, session);
  const exitCode = await (await project.tmux()).attach(tmuxSessionOf(session.name));
  if (exitCode === 0) return;
  throw new OverseerError("command_failed", `tmux ended with ${exitCode}`, {
    hint: `overseer peek ${session.name}`,
  });
}

export interface Diff {
  /** Without it, what the branch has is all there is to see. */
  hasWorktree: boolean;
  base: string;
  files: string[];
  text: string;
}

/** Everything a worker has changed since its branch was made, committed or not. */
export async function readDiff(project: Project, session: Session, isStat: boolean): Promise<Diff> {
  const { git, paths } = project;
  const { branch, worktree, baseCommit, name } = session;
  const tip = branch === null ? null : await commitOf(git, paths.root, `refs/heads/${branch}`);
  const hasWorktree = worktree !== null && exists(worktree);
  if (baseCommit === null || (tip === null && !hasWorktree)) {
    throw new OverseerError("worktree_left", `${name} has neither a worktree nor a branch`, {
      hint: `overseer events --agent ${name} --type worktree`,
    });
  }
  const cwd = hasWorktree ? worktree : paths.root;
  const against = hasWorktree ? [] : [tip ?? ""];
  const from = await ownBase(project, cwd, baseCommit, hasWorktree ? "HEAD" : (tip ?? ""));
  return await withUntracked(project, session, hasWorktree, async (index) => {
    const diff = (options: readonly string[]) =>
      git.ask(cwd, ["diff", ...PLAIN, ...options, from, ...against, "--"], index);
    const files = (await diff(["--name-only", "-z"])).split("\0").filter((file) => file !== "");
    return { hasWorktree, base: from, files, text: await diff(isStat ? ["--stat=120"] : []) };
  });
}

/** Whatever the user has configured for looking at changes. */
const PLAIN = ["--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"];

/** A worker may have merged the canonical branch: what came with that is not its own. */
export async function ownBase(project: Project, cwd: string, base: string, head: string): Promise<string> {
  const { config } = await project.config();
  const { exitCode, stdout } = await project.git.run(cwd, [
    "merge-base",
    `refs/heads/${config.project.canonicalBranch}`,
    head,
  ]);
  if (exitCode !== 0) return base;
  const shared = stdout.trim();
  const isNewer = (await project.git.run(cwd, ["merge-base", "--is-ancestor", base, shared])).exitCode === 0;
  return isNewer ? shared : base;
}

/** git shows an untracked file once an index knows of it: one of our own, so that the worker's stays as it is. */
async function withUntracked<T>(
  project: Project,
  { name, worktree }: Session,
  hasWorktree: boolean,
  work: (index: Record<string, string>) => Promise<T>,
): Promise<T> {
  if (!hasWorktree || worktree === null) return await work({});
  const { git, paths } = project;
  const files = agentFiles(paths, name);
  const scratch = files.scratchIndex("diff", process.pid);
  const index = { GIT_INDEX_FILE: scratch };
  try {
    await git.ask(worktree, ["read-tree", "HEAD"], index);
    await git.ask(worktree, [...overlooking(files.excludes), "add", "--intent-to-add", "--", "."], index);
    return await work(index);
  } finally {
    remove(scratch);
  }
}

/** Of a worktree that somebody has removed; null where there is one, or where it was cleaned. */
export function worktreeGone({ name, state, worktree }: Session, hasWorktree: boolean): string | null {
  if (worktree === null || hasWorktree) return null;
  if (state === "completed") return "its worktree is gone";
  return `its worktree is gone: ${isLive(state) ? renewWorktree(name) : `overseer resume ${name}`}`;
}

/** Tracked files that the user has changed and not committed in the main checkout, less what init changes there. */
export async function uncommittedHere({ git, paths }: Project): Promise<string[]> {
  const ours = [":!.overseer", ":!.claude"];
  const args = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--", ".", ...ours];
  const { exitCode, stdout } = await git.run(paths.root, args);
  if (exitCode !== 0) return [];
  return stdout.split("\0").flatMap((entry) => (entry === "" ? [] : [entry.slice(3)]));
}

/** Where a worker's newest log for people is. */
function logFile(project: Project, session: Session): string {
  return `${project.paths.logs}/${session.logFolder}/session.log`;
}

export function readLog(project: Project, session: Session): string[] {
  const text = readBytes(logFile(project, session))?.toString("utf8") ?? "";
  return text.split("\n").filter((line) => line !== "");
}

const LOOK_AGAIN_MS = 300;

/** The lines so far and then, without end, every one that follows, also of the incarnations to come. */
export async function* followLog(reopen: () => Project, name: string, last: number): AsyncGenerator<string> {
  let seen = { id: "", lines: 0 };
  for (let project = reopen(); ; project = reopen()) {
    const session = await project.ledger.currentSession(name);
    const lines = session ? readLog(project, session) : [];
    const isNew = session !== null && session.id !== seen.id;
    const from = isNew ? (seen.id === "" ? Math.max(0, lines.length - last) : 0) : seen.lines;
    yield* lines.slice(from);
    seen = { id: session?.id ?? seen.id, lines: lines.length };
    await Bun.sleep(LOOK_AGAIN_MS);
  }
}

/** Who has a task: works on it, can go on with it, or has completed it. */
export async function workerOn({ ledger }: Project, taskId: string): Promise<Session | null> {
  const [latest] = await ledger.pastSessions({ taskId });
  const isKept = latest && (isLive(latest.state) || latest.state === "completed" || latest.worktree !== null);
  return isKept ? latest : null;
}

/** The workers that somebody may want to type the name of: those that live or have left something. */
export async function namesToOffer({ ledger }: Project): Promise<string[]> {
  const workers = (await ledger.currentSessions()).filter(({ capability }) => capability !== ORCHESTRATOR);
  return workers.filter(({ state, worktree }) => isLive(state) || worktree !== null).map(({ name }) => name);
}

export interface Inspection {
  session: Session;
  incarnations: number;
  task: Task | null;
  unread: number;
  isRunning: boolean;
  hasPane: boolean;
  hasWorktree: boolean;
  uncommitted: string[];
  ahead: number | null;
  behind: number | null;
  mergeEntries: MergeEntry[];
  spawn: Action | null;
  sessionsCompleted: number;
  children: string[];
  files: string[];
  events: StoredEvent[];
}

const SHOWN_EVENTS = 10;

/** Everything that is known of a worker. Reads only. */
export async function inspectWorker(project: Project, session: Session): Promise<Inspection> {
  const { ledger, git, paths } = project;
  const files = agentFiles(paths, session.name);
  const hasWorktree = session.worktree !== null && exists(session.worktree);
  const everybody = await ledger.currentSessions();
  return {
    session,
    incarnations: (await ledger.pastSessions({ name: session.name })).length,
    task: session.taskId === null ? null : await ledger.findTask(session.taskId),
    unread: (await project.mail.unreadCounts()).get(session.name) ?? 0,
    isRunning: await isRunning(session),
    hasPane: (await paneOf(project, session)) !== null,
    hasWorktree,
    uncommitted: hasWorktree ? await uncommitted(git, session.worktree ?? "", files.excludes) : [],
    ...(await distance(project, session.branch)),
    mergeEntries: await ledger.mergeEntries({ sessionId: session.id }),
    spawn: await ledger.findAction(session.id),
    sessionsCompleted: readIdentity(project, session.name)?.sessionsCompleted ?? 0,
    children: everybody.filter(({ parent }) => parent === session.name).map(({ name }) => name),
    files: [
      ...listFolder(files.folder).map((file) => `${files.folder}/${file}`),
      `${paths.logs}/${session.logFolder}`,
    ],
    events: await ledger.listEvents({ agent: session.name, limit: SHOWN_EVENTS }),
  };
}

/** A look at who works must not fail because git is missing. */
async function orNothing<T>(work: () => Promise<T>): Promise<T | null> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof OverseerError && error.kind === "missing") return null;
    throw error;
  }
}

/** How far a branch and the canonical one have gone apart; nulls where one of them is not there. */
export async function distance(
  project: Project,
  branch: string | null,
): Promise<{ ahead: number | null; behind: number | null }> {
  if (branch === null) return { ahead: null, behind: null };
  const { config } = await project.config();
  const sides = `refs/heads/${config.project.canonicalBranch}...refs/heads/${branch}`;
  const counted = await orNothing(() =>
    project.git.run(project.paths.root, ["rev-list", "--left-right", "--count", sides]),
  );
  if (counted?.exitCode !== 0) return { ahead: null, behind: null };
  const [behind = 0, ahead = 0] = counted.stdout.trim().split("\t").map(Number);
  return { ahead, behind };
}
