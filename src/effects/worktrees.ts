import { OverseerError } from "../domain/errors.ts";
import { copyIfMissing, exists, readBytes, realPath, remove } from "./files.ts";
import type { Git } from "./git.ts";

export interface Worktree {
  path: string;
  head: string;
  /** Null when its HEAD is detached. */
  branch: string | null;
  isLocked: boolean;
}

export async function listWorktrees(git: Git, root: string): Promise<Worktree[]> {
  const list = ["worktree", "list", "--porcelain"];
  const { exitCode, stdout } = await git.run(root, [...list, "-z"]);
  // git before 2.36 has no -z, and its answer means nothing where a path has a line feed in it.
  const text = exitCode === 0 ? stdout : (await git.ask(root, list)).replaceAll("\n", "\0");
  return text.split("\0\0").flatMap((block) => {
    const lines = block.split("\0");
    const field = (name: string) =>
      lines.find((line) => line.startsWith(`${name} `))?.slice(name.length + 1) ?? null;
    const path = field("worktree");
    const branch = field("branch")?.replace(/^refs\/heads\//, "") ?? null;
    const isLocked = lines.some((line) => /^locked\b/.test(line));
    return path === null ? [] : [{ path, head: field("HEAD") ?? "", branch, isLocked }];
  });
}

/** Without tracking, which would write to the configuration that all worktrees share. */
export async function addWorktree(
  git: Git,
  root: string,
  { path, branch, commit }: { path: string; branch: string; commit: string },
  onStart: (pid: number) => Promise<void>,
): Promise<void> {
  const args = ["worktree", "add", "--quiet", "--no-track", "-b", branch, "--", path, commit];
  await git.ask(root, args, {}, onStart);
}

/** The folder of a branch that is still there. */
export async function addWorktreeAgain(git: Git, root: string, path: string, branch: string): Promise<void> {
  await forget(git, root, path);
  await git.ask(root, ["worktree", "add", "--quiet", "--", path, branch]);
}

/** The folder and git's own record of it. What was worth keeping must be safe before. */
export async function removeWorktree(git: Git, root: string, path: string): Promise<void> {
  await git.run(root, ["worktree", "remove", "--force", "--", path]);
  // Half-made, or not known to git any more.
  if (exists(path)) remove(path);
  await forget(git, root, path);
}

/** git's record of a folder that is gone. Never `prune`: it takes the user's worktrees on a disk that is away, too. */
async function forget(git: Git, root: string, path: string): Promise<void> {
  await git.run(root, ["worktree", "remove", "--force", "--force", "--", path]);
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
  const entries = stdout.split("\0").values();
  const paths: string[] = [];
  for (const entry of entries) {
    if (entry !== "") paths.push(entry.slice(3));
    // After a rename the name it had follows as an entry of its own.
    if (/^(?:[RC]|.[RC])/.test(entry)) entries.next();
  }
  return [...new Set([...paths, ...(await overlooked(git, worktree))])];
}

/** Files that git was told not to look at (`assume-unchanged`, `skip-worktree`), and that were changed. */
async function overlooked(git: Git, worktree: string): Promise<string[]> {
  const changed: string[] = [];
  for (const path of await marked(git, worktree)) {
    const known = await git.run(worktree, ["rev-parse", "--verify", "--quiet", `:${path}`]);
    const now = await git.run(worktree, ["hash-object", "--", path]);
    if (known.stdout !== now.stdout) changed.push(path);
  }
  return changed;
}

/** A sparse checkout would pass over what was made or changed outside of it. */
const WHOLE = ["-c", "core.sparseCheckout=false"];

/** Those that are there: of a sparse checkout most are not, which changes nothing. */
async function marked(git: Git, worktree: string): Promise<string[]> {
  const entries = (await git.ask(worktree, [...WHOLE, "ls-files", "-v", "-z"])).split("\0");
  const paths = entries.filter((entry) => /^[a-zS] /.test(entry)).map((entry) => entry.slice(2));
  return paths.filter((path) => exists(`${worktree}/${path}`));
}

/** What a rebase or a merge in progress has put aside, and would bring back at its end. */
export async function putAside(git: Git, worktree: string): Promise<string[]> {
  const found: string[] = [];
  for (const name of ["rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH"]) {
    const file = await git.ask(worktree, ["rev-parse", "--path-format=absolute", "--git-path", name]);
    const commit = readBytes(file)?.toString("utf8").trim();
    if (commit) found.push(commit);
  }
  return found;
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
  return (
    (await addsNothing(git, root, tip, into)) ||
    (await isSquashed(git, root, tip, into)) ||
    (await isPicked(git, root, tip, into))
  );
}

/**
 * Merging it would change nothing. git before 2.38 cannot tell. A merge driver that keeps one side would make every
 * change look as if it were there: asked inside of git's own folder, where the attributes of the files are not read,
 * and any driver that is chosen all the same finds a conflict.
 */
async function addsNothing(git: Git, root: string, tip: string, into: string): Promise<boolean> {
  const folder = await git.ask(root, ["rev-parse", "--absolute-git-dir"]);
  const list = ["config", "--null", "--name-only", "--get-regexp", "^merge\\..*\\.driver$"];
  const drivers = (await git.run(root, list)).stdout.split("\0").filter((name) => name !== "");
  const settings = [
    "core.attributesFile=/dev/null",
    "merge.default=text",
    ...drivers.map((name) => `${name}=false`),
  ];
  const plainly = settings.flatMap((setting) => ["-c", setting]);
  const { exitCode, stdout } = await git.run(folder, [...plainly, "merge-tree", "--write-tree", into, tip]);
  return exitCode === 0 && stdout.trim() === (await git.ask(root, ["rev-parse", `${into}^{tree}`]));
}

/** Its whole change, as one commit, is among those that the other has since. */
async function isSquashed(git: Git, root: string, tip: string, into: string): Promise<boolean> {
  const { exitCode, stdout } = await git.run(root, ["merge-base", into, tip]);
  if (exitCode !== 0) return false;
  const message = ["-m", "overseer: to compare"];
  // Always the same time, so that asking again makes no further object.
  const then = { GIT_AUTHOR_DATE: "2000-01-01T00:00:00Z", GIT_COMMITTER_DATE: "2000-01-01T00:00:00Z" };
  const squashed = await git.ask(root, ["commit-tree", `${tip}^{tree}`, "-p", stdout.trim(), ...message], {
    ...OURS,
    ...then,
  });
  return await isPicked(git, root, squashed, into);
}

/** Every commit of its own was made in the other as well, to the letter: git compares without the blanks. */
async function isPicked(git: Git, root: string, tip: string, into: string): Promise<boolean> {
  const list = (text: string) => text.split("\n").filter((line) => line !== "");
  const own = list(await git.ask(root, ["rev-list", "--parents", `${into}..${tip}`]));
  if (own.length === 0 || own.length > 200 || own.some((line) => line.split(" ").length !== 2)) return false;
  const sides = ["rev-list", "--cherry-mark", "--no-merges", `${into}...${tip}`];
  const ids = own.map((line) => line.slice(0, line.indexOf(" ")));
  const equal = list(await git.ask(root, sides)).filter((line) => line.startsWith("="));
  const theirs = equal.map((line) => line.slice(1)).filter((id) => !ids.includes(id));
  if (theirs.length === 0) return false;
  const made = new Set(await Promise.all(theirs.map((id) => changeOf(git, root, id))));
  for (const id of ids) if (!made.has(await changeOf(git, root, id))) return false;
  return true;
}

/** What a commit changes, wherever in the files that is by now. */
async function changeOf(git: Git, root: string, id: string): Promise<string> {
  const plain = ["--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--binary"];
  const text = await git.ask(root, ["diff-tree", "-p", "--root", "--no-commit-id", ...plain, id]);
  return text.replaceAll(/^(?:@@ .*|index .*)$/gm, "");
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
  /** What else must be reachable from the ref: the head of the worktree, the tip of a branch. */
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
  try {
    const staged = await stagedCommit(git, worktree, scratchIndex, tips);
    const tree = await treeOf(git, worktree, scratchIndex, excludes);
    const parents = [...new Set([...tips, ...(staged === null ? [] : [staged])])];
    const commit = await commitTree(git, worktree, tree, parents, `overseer: what ${worktree} held`);
    await git.ask(worktree, ["update-ref", "-m", "overseer: rescue", ref, commit]);
  } finally {
    remove(scratchIndex);
  }
}

/** Where no folder is left: the newest of them, with the others behind it. */
export async function saveTips(git: Git, root: string, ref: string, tips: readonly string[]): Promise<void> {
  const [first = "HEAD", ...others] = tips;
  const tree = await git.ask(root, ["rev-parse", `${others.at(-1) ?? first}^{tree}`]);
  const commit =
    others.length === 0 ? first : await commitTree(git, root, tree, tips, "overseer: what was left");
  await git.ask(root, ["update-ref", "-m", "overseer: rescue", ref, commit]);
}

async function commitTree(git: Git, cwd: string, tree: string, parents: readonly string[], words: string) {
  const named = parents.flatMap((parent) => ["-p", parent]);
  return await git.ask(cwd, ["commit-tree", tree, ...named, "-m", words], OURS);
}

/** A copy knows which files have not changed, so that those need not be read; and nobody else has locked it. */
async function copyIndex(git: Git, worktree: string, scratchIndex: string): Promise<Record<string, string>> {
  const index = await git.ask(worktree, ["rev-parse", "--path-format=absolute", "--git-path", "index"]);
  remove(scratchIndex);
  if (exists(index)) copyIfMissing(index, scratchIndex);
  return { GIT_INDEX_FILE: scratchIndex };
}

async function treeOf(git: Git, worktree: string, scratchIndex: string, excludes: string): Promise<string> {
  const index = await copyIndex(git, worktree, scratchIndex);
  const hidden = await marked(git, worktree);
  // One by one: git takes no more than the first of the two.
  for (const flag of hidden.length > 0 ? ["--no-assume-unchanged", "--no-skip-worktree"] : []) {
    await git.ask(worktree, [...WHOLE, "update-index", flag, "--", ...hidden], index);
  }
  const options = [...WHOLE, "-c", "core.safecrlf=false", ...overlooking(excludes)];
  await git.ask(worktree, [...options, "add", "--all", "--", "."], index);
  return await git.ask(worktree, ["write-tree"], index);
}

/** What was staged, where it differs from the last commit; of a conflict both sides are commits already. */
async function stagedCommit(
  git: Git,
  worktree: string,
  scratchIndex: string,
  tips: readonly string[],
): Promise<string | null> {
  const index = await copyIndex(git, worktree, scratchIndex);
  const unmerged = (await git.ask(worktree, ["ls-files", "--unmerged", "-z"], index)).split("\0");
  const paths = unmerged.filter((line) => line !== "").map((line) => line.slice(line.indexOf("\t") + 1));
  if (paths.length > 0) {
    await git.ask(worktree, ["update-index", "--force-remove", "--", ...new Set(paths)], index);
  }
  const tree = await git.ask(worktree, ["write-tree"], index);
  const committed = await Promise.all(tips.map((tip) => git.ask(worktree, ["rev-parse", `${tip}^{tree}`])));
  if (committed.includes(tree)) return null;
  return await commitTree(git, worktree, tree, tips.slice(0, 1), "overseer: what was staged");
}

/** The commit a worktree is at; where its branch was deleted beneath it, the one that its log tells last. */
export async function headOf(git: Git, worktree: string): Promise<string | null> {
  const head = await commitOf(git, worktree, "HEAD");
  if (head !== null) return head;
  const log = await git.ask(worktree, ["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]);
  const last = readBytes(log)?.toString("utf8").trimEnd().split("\n").at(-1)?.split(" ")[1];
  return last === undefined ? null : await commitOf(git, worktree, last);
}

/** git takes the folder itself for a worktree, and not for a part of the repository around it. */
export async function isCheckout(git: Git, folder: string): Promise<boolean> {
  const { exitCode, stdout } = await git.run(folder, ["rev-parse", "--show-toplevel"]);
  return exitCode === 0 && stdout.replace(/\n$/, "") === realPath(folder);
}

/** Repositories inside of a worktree with something that is nowhere else: git keeps no more than a commit's name. */
export async function innerRepositories(git: Git, worktree: string, untracked: readonly string[]) {
  const staged = (await git.ask(worktree, ["ls-files", "--stage", "-z"])).split("\0");
  const links = staged
    .filter((line) => line.startsWith("160000 "))
    .map((line) => line.slice(line.indexOf("\t") + 1));
  const found = untracked.filter((path) => path.endsWith("/"));
  for (const link of new Set(links)) {
    const inner = `${worktree}/${link}`;
    if (!exists(`${inner}/.git`)) continue;
    const changed = await git.ask(inner, ["status", "--porcelain", "--untracked-files=all"]);
    const own = await git.run(inner, [
      "log",
      "-1",
      "--format=%H",
      "HEAD",
      "--branches",
      "--tags",
      "--not",
      "--remotes",
    ]);
    if (changed !== "" || own.exitCode !== 0 || own.stdout !== "") found.push(link);
  }
  return found;
}

/** Files that git does not track and that `.worktreeinclude`, written like a .gitignore, lists. */
export async function includedFiles(git: Git, root: string): Promise<string[]> {
  if (readBytes(`${root}/.worktreeinclude`) === null) return [];
  const list = ["ls-files", "--others", "--ignored", "-z", "--exclude-from=.worktreeinclude"];
  const files = (await git.ask(root, list)).split("\0");
  return files.filter((file) => file !== "" && !file.endsWith("/") && !isOurs(file));
}

/** The orchestrator's hooks and instructions are not a worker's. */
function isOurs(file: string): boolean {
  return (
    file.startsWith(".overseer/") || file === ".claude/settings.local.json" || file === ".claude/CLAUDE.md"
  );
}
