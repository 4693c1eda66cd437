import { OverseerError } from "../domain/errors.ts";
import { copyIfMissing, exists, readBytes, remove } from "./files.ts";
import type { Git } from "./git.ts";

export interface Worktree {
  path: string;
  head: string;
  /** Null when its HEAD is detached. */
  branch: string | null;
}

export async function listWorktrees(git: Git, root: string): Promise<Worktree[]> {
  const text = await git.ask(root, ["worktree", "list", "--porcelain"]);
  return text.split("\n\n").flatMap((block) => {
    const field = (name: string) => new RegExp(`^${name} (.*)$`, "m").exec(block)?.[1] ?? null;
    const path = field("worktree");
    const branch = field("branch")?.replace(/^refs\/heads\//, "") ?? null;
    return path === null ? [] : [{ path, head: field("HEAD") ?? "", branch }];
  });
}

/** Without tracking, which would write to the configuration that all worktrees share. */
export async function addWorktree(
  git: Git,
  root: string,
  { path, branch, commit }: { path: string; branch: string; commit: string },
): Promise<void> {
  await git.ask(root, ["worktree", "add", "--quiet", "--no-track", "-b", branch, "--", path, commit]);
}

/** The folder of a branch that is still there. */
export async function addWorktreeAgain(git: Git, root: string, path: string, branch: string): Promise<void> {
  await git.ask(root, ["worktree", "prune"]);
  await git.ask(root, ["worktree", "add", "--quiet", "--", path, branch]);
}

/** The folder and git's own record of it. What was worth keeping must be safe before. */
export async function removeWorktree(git: Git, root: string, path: string): Promise<void> {
  const { exitCode, stderr } = await git.run(root, ["worktree", "remove", "--force", "--", path]);
  if (exitCode !== 0 && /locked/.test(stderr)) {
    throw new OverseerError("worktree_dirty", `${path} is locked: ${stderr.trim()}`, {
      hint: `git worktree unlock ${path}`,
    });
  }
  // Half-made, or not known to git any more.
  if (exists(path)) remove(path);
  await git.ask(root, ["worktree", "prune"]);
}

export async function commitOf(git: Git, cwd: string, ref: string): Promise<string | null> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`];
  const { exitCode, stdout } = await git.run(cwd, args);
  return exitCode === 0 ? stdout.trim() : null;
}

/** Only if it still stands where it was seen. */
export async function deleteBranch(git: Git, root: string, branch: string, tip: string): Promise<boolean> {
  const { exitCode } = await git.run(root, ["update-ref", "-d", `refs/heads/${branch}`, tip]);
  return exitCode === 0;
}

/** git's options for a worktree in which something of ours is hidden by a file of its own. */
export function overlooking(excludes: string): string[] {
  return exists(excludes) ? ["-c", `core.excludesFile=${excludes}`] : [];
}

/** Paths with changes that are in no commit, untracked ones included. */
export async function uncommitted(git: Git, worktree: string, excludes: string): Promise<string[]> {
  const args = [...overlooking(excludes), "status", "--porcelain=v1", "-z", "--untracked-files=all"];
  const { exitCode, stdout, stderr } = await git.run(worktree, args);
  if (exitCode !== 0) throw new OverseerError("command_failed", `git status: ${stderr.trim().slice(0, 500)}`);
  const entries = stdout.split("\0");
  // After a rename the name it had follows as an entry of its own.
  const isOrigin = (at: number) => /^[RC]/.test(entries[at - 1] ?? "");
  return entries.filter((entry, at) => entry !== "" && !isOrigin(at)).map((entry) => entry.slice(3));
}

export async function countCommits(git: Git, cwd: string, from: string, to: string): Promise<number> {
  return Number(await git.ask(cwd, ["rev-list", "--count", `${from}..${to}`]));
}

export async function changedFiles(git: Git, cwd: string, from: string, to: string): Promise<string[]> {
  const text = await git.ask(cwd, ["diff", "--name-only", "-z", "--no-renames", from, to]);
  return text.split("\0").filter((file) => file !== "");
}

/** The content of a commit is in another, as history or as the same change made in another way. */
export async function isContained(git: Git, root: string, tip: string, into: string): Promise<boolean> {
  if ((await git.run(root, ["merge-base", "--is-ancestor", tip, into])).exitCode === 0) return true;
  return (await addsNothing(git, root, tip, into)) || (await isSquashed(git, root, tip, into));
}

/** Merging it would change nothing. git before 2.38 cannot tell. */
async function addsNothing(git: Git, root: string, tip: string, into: string): Promise<boolean> {
  const { exitCode, stdout } = await git.run(root, ["merge-tree", "--write-tree", into, tip]);
  return exitCode === 0 && stdout.trim() === (await git.ask(root, ["rev-parse", `${into}^{tree}`]));
}

/** Its whole change, as one commit, is among those that the other has since. */
async function isSquashed(git: Git, root: string, tip: string, into: string): Promise<boolean> {
  const { exitCode, stdout } = await git.run(root, ["merge-base", into, tip]);
  if (exitCode !== 0) return false;
  const message = ["-m", "overseer: to compare"];
  const squashed = await git.ask(
    root,
    ["commit-tree", `${tip}^{tree}`, "-p", stdout.trim(), ...message],
    OURS,
  );
  return (await git.ask(root, ["cherry", into, squashed])).startsWith("- ");
}

/** Whether another branch or tag leads to it as well. */
export async function isReachable(git: Git, root: string, commit: string, except: string): Promise<boolean> {
  const args = [
    "for-each-ref",
    "--contains",
    commit,
    "--format=%(refname)",
    "refs/heads",
    "refs/remotes",
    "refs/tags",
  ];
  const refs = (await git.ask(root, args)).split("\n").filter((ref) => ref !== "");
  return refs.some((ref) => ref !== `refs/heads/${except}`);
}

/** Whoever has not told git a name can still be helped. */
const OURS = {
  GIT_AUTHOR_NAME: "overseer",
  GIT_AUTHOR_EMAIL: "overseer@localhost",
  GIT_COMMITTER_NAME: "overseer",
  GIT_COMMITTER_EMAIL: "overseer@localhost",
};

export interface Rescue {
  ref: string;
  worktree: string;
  /** What else must be reachable from the ref, such as the tip of a branch. */
  tips: readonly string[];
  /** An index of our own, so that the worker's is not touched. */
  scratchIndex: string;
  excludes: string;
}

/** Everything that stands in a worktree, committed or not, under one ref. What git ignores is not part of it. */
export async function saveWork(
  git: Git,
  { ref, worktree, tips, scratchIndex, excludes }: Rescue,
): Promise<void> {
  const head = await git.ask(worktree, ["rev-parse", "HEAD"]);
  const staged = await stagedCommit(git, worktree, head);
  try {
    const tree = await treeOf(git, worktree, scratchIndex, excludes);
    await refuseInnerRepositories(git, worktree, head, tree);
    const parents = [...new Set([head, ...tips, ...(staged === null ? [] : [staged])])];
    const named = parents.flatMap((parent) => ["-p", parent]);
    const message = ["-m", `overseer: what ${worktree} held`];
    const commit = await git.ask(worktree, ["commit-tree", tree, ...named, ...message], OURS);
    await git.ask(worktree, ["update-ref", "-m", "overseer: rescue", ref, commit]);
  } finally {
    remove(scratchIndex);
  }
}

async function treeOf(git: Git, worktree: string, scratchIndex: string, excludes: string): Promise<string> {
  const index = { GIT_INDEX_FILE: scratchIndex };
  // A copy knows which files have not changed, so that those need not be read.
  copyIfMissing(
    await git.ask(worktree, ["rev-parse", "--path-format=absolute", "--git-path", "index"]),
    scratchIndex,
  );
  await git.ask(worktree, [...overlooking(excludes), "add", "--all", "--", "."], index);
  return await git.ask(worktree, ["write-tree"], index);
}

/** What was staged, where it differs from the last commit; null in the middle of a merge, which git cannot write. */
async function stagedCommit(git: Git, worktree: string, head: string): Promise<string | null> {
  const { exitCode, stdout } = await git.run(worktree, ["write-tree"]);
  const tree = stdout.trim();
  if (exitCode !== 0 || tree === (await git.ask(worktree, ["rev-parse", "HEAD^{tree}"]))) return null;
  return await git.ask(worktree, ["commit-tree", tree, "-p", head, "-m", "overseer: what was staged"], OURS);
}

/** git would keep of them no more than the name of a commit. */
async function refuseInnerRepositories(
  git: Git,
  worktree: string,
  head: string,
  tree: string,
): Promise<void> {
  const raw = await git.ask(worktree, ["diff", "--raw", "--no-abbrev", head, tree]);
  const inner = raw.split("\n").find((line) => /^:\d+ 160000 /.test(line));
  if (inner === undefined) return;
  const folder = inner.slice(inner.indexOf("\t") + 1);
  throw new OverseerError("worktree_dirty", `${worktree}/${folder} is a repository of its own`, {
    hint: "move it out of the worktree, then try again",
  });
}

/** Files that git does not track and that `.worktreeinclude`, written like a .gitignore, lists. */
export async function includedFiles(git: Git, root: string): Promise<string[]> {
  if (readBytes(`${root}/.worktreeinclude`) === null) return [];
  const list = ["ls-files", "--others", "--ignored", "-z", "--exclude-from=.worktreeinclude"];
  const files = (await git.ask(root, list)).split("\0");
  return files.filter((file) => file !== "" && !file.endsWith("/") && !file.startsWith(".overseer/"));
}
