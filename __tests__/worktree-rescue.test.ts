import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import type { Answer } from "./support/cli.ts";
import type { Fleet } from "./support/fleet.ts";
import {
  deadWorker,
  filesIn,
  gitAt,
  refsOf,
  repoAt,
  rescueRefs,
  standInFleet,
  wholeState,
} from "./support/stand-in-claude.ts";
import { gitIsolation, type TempFolder, tempFolder } from "./support/temp.ts";

/** A path that no shell takes as it stands, so that every printed command shows whether it is quoted. */
const FOLDER = `it's a "repo" $(touch pwned) #{pid} ;`;
const FILES = {
  "README.md": "# test\n",
  "edit.txt": "one\ntwo\nthree\n",
  "gone.txt": "to be deleted\n",
  "moved.txt": "a file that is renamed\nwith some lines\nto be known by\n",
  "tool.sh": "#!/bin/sh\necho tool\n",
  "deep/er/file.txt": "deep\n",
};

let outer: TempFolder;
let fleet: Fleet;

beforeAll(async () => {
  outer = tempFolder("overseer-rescue-");
  fleet = await standInFleet({
    repo: repoAt(outer, FOLDER, FILES),
    config: "agents: { maxConcurrent: 100 }",
  });
});

afterAll(async () => {
  await fleet[Symbol.asyncDispose]();
  outer.remove();
});

interface Left {
  name: string;
  branch: string;
  path: string;
  git(...args: string[]): string;
  /** The same, where git is expected to stop with an error, as at a conflict. */
  gitFails(...args: string[]): void;
  write(file: string, content: string | Uint8Array): void;
}

/** A worker that is no more, and whose worktree a test can make as it likes. */
async function left(name: string, at = fleet): Promise<Left> {
  const { branch, worktree: path } = await deadWorker(at, name);
  return {
    name,
    branch,
    path,
    git: (...args) => gitAt(path, args),
    gitFails: (...args) => expect(() => gitAt(path, args)).toThrow(),
    write(file, content) {
      mkdirSync(join(path, file, ".."), { recursive: true });
      Bun.spawnSync(["sh", "-c", 'cat > "$1"', "sh", join(path, file)], { stdin: Buffer.from(content) });
    },
  };
}

function commit(worker: Left, file: string, content: string): string {
  worker.write(file, content);
  worker.git("add", "--all");
  worker.git("commit", "--quiet", "--message", `${worker.name} made ${file}`);
  return worker.git("rev-parse", "HEAD");
}

function clean(name: string, ...args: string[]): Promise<Answer> {
  return fleet.overseer(["worktree", "clean", name, ...args]);
}

/** The command that the answer prints, run as it stands; where the work is now. */
function bringBack(answer: Answer, at = fleet): string {
  const command = answer.stdout.split("\n").find((line) => line.trim().startsWith("git "));
  if (command === undefined) throw new Error(`no command in: ${answer.stdout}${answer.stderr}`);
  const before = checkouts(at);
  const env = { PATH: process.env.PATH ?? "", HOME: "/dev/null", ...gitIsolation };
  const ran = Bun.spawnSync(["sh", "-c", command], { cwd: outer.path, env });
  expect(ran.stderr.toString()).not.toContain("fatal");
  const [place] = checkouts(at).filter((path) => !before.includes(path));
  if (place === undefined) throw new Error(`${command} made nothing: ${ran.stderr}`);
  return place;
}

function checkouts({ root }: Fleet): string[] {
  const lines = gitAt(root, ["worktree", "list", "--porcelain"]).split("\n");
  return lines.filter((line) => line.startsWith("worktree ")).map((line) => line.slice("worktree ".length));
}

async function cleanedByForce(worker: Left): Promise<Answer> {
  const answer = await clean(worker.name, "--force");
  expect(answer.stderr).toBe("");
  expect(answer.exitCode).toBe(0);
  expect(existsSync(worker.path)).toBe(false);
  expect(refsOf(fleet).filter((ref) => ref.includes(`refs/heads/${worker.branch}`))).toEqual([]);
  return answer;
}

/** Cleans by force, brings the work back as the answer says, and expects every file to be as it was. */
async function comesBack(worker: Left): Promise<string> {
  const before = filesIn(worker.path);
  const place = bringBack(await cleanedByForce(worker));
  expect(filesIn(place)).toEqual(before);
  expect(gitAt(place, ["status", "--porcelain"])).toBe("");
  return place;
}

/** What some commit that can be reached from the checkout has under a path. */
function versionsIn(place: string, file: string): string[] {
  const commits = gitAt(place, ["rev-list", "HEAD"]).split("\n");
  const has = (id: string) => gitAt(place, ["ls-tree", "-r", "--name-only", id]).split("\n").includes(file);
  return commits.filter(has).map((id) => gitAt(place, ["show", `${id}:${file}`]));
}

async function isRefused(worker: Left, ...args: string[]): Promise<Answer> {
  const before = wholeState(fleet, worker.name);
  const answer = await clean(worker.name, ...args);
  expect(answer.exitCode).toBe(1);
  expect(answer.stdout).toBe("");
  expect(wholeState(fleet, worker.name)).toEqual(before);
  return answer;
}

describe("what --force saves", () => {
  test("every kind of change at once comes back to the byte with the printed command", async () => {
    const ada = await left("all-kinds");
    commit(ada, "committed.txt", "in a commit that has not landed\n");
    ada.write("edit.txt", "one\nchanged\nthree\n");
    unlinkSync(join(ada.path, "gone.txt"));
    ada.git("mv", "moved.txt", "renamed.txt");
    chmodSync(join(ada.path, "tool.sh"), 0o755);
    ada.write("new/folder/untracked.txt", "untracked\n");
    ada.write("binary.bin", new Uint8Array([0, 1, 2, 255, 0, 13, 10, 26]));
    ada.write("größe – 日本.txt", "a name beyond ASCII\n");
    ada.write('two\nlines\t"and" more.txt', "a name with a line feed\n");
    ada.write(" leading and trailing ", "spaces\n");
    ada.write("-rf", "a name like an option\n");
    symlinkSync("edit.txt", join(ada.path, "link"));
    symlinkSync("/nowhere/at/all", join(ada.path, "dangling"));
    symlinkSync("deep", join(ada.path, "link-to-folder"));
    ada.write("staged-new.txt", "staged\n");
    ada.git("add", "staged-new.txt");
    ada.write("no-end-of-line", "no line feed at the end");
    ada.write("empty", "");
    const place = await comesBack(ada);
    expect(gitAt(place, ["log", "--format=%s"])).toContain("all-kinds made committed.txt");
    expect(existsSync(join(outer.path, "pwned")) || existsSync(join(fleet.root, "pwned"))).toBe(false);
  });

  test("a staged version that differs from the file is kept beside it", async () => {
    const ada = await left("staged");
    ada.write("edit.txt", "what was staged\n");
    ada.git("add", "edit.txt");
    ada.write("edit.txt", "what was written after that\n");
    const place = await comesBack(ada);
    expect(versionsIn(place, "edit.txt")).toContain("what was staged");
  });

  test("a file that was staged and then deleted is kept", async () => {
    const ada = await left("staged-only");
    ada.write("only-staged.txt", "nowhere but in the index\n");
    ada.git("add", "only-staged.txt");
    unlinkSync(join(ada.path, "only-staged.txt"));
    const place = await comesBack(ada);
    expect(versionsIn(place, "only-staged.txt")).toEqual(["nowhere but in the index"]);
  });

  test("commits alone come back as the commits that they were", async () => {
    const ada = await left("commits");
    const tip = commit(ada, "commits.txt", "work\n");
    const place = await comesBack(ada);
    expect(gitAt(place, ["merge-base", tip, "HEAD"])).toBe(tip);
  });

  test("a folder replaced by a file, and a file by a folder and by a link", async () => {
    const ada = await left("replaced");
    rmSync(join(ada.path, "deep"), { recursive: true });
    ada.write("deep", "a file now\n");
    unlinkSync(join(ada.path, "edit.txt"));
    ada.write("edit.txt/inside", "a folder now\n");
    unlinkSync(join(ada.path, "tool.sh"));
    symlinkSync("README.md", join(ada.path, "tool.sh"));
    await comesBack(ada);
  });

  test("what is saved twice under one name comes back twice, both at a time", async () => {
    const first = await left("twice");
    first.write("first.txt", "first\n");
    const one = await comesBack(first);
    const second = await left("twice");
    second.write("second.txt", "second\n");
    const two = await comesBack(second);
    expect(existsSync(join(one, "first.txt"))).toBe(true);
    expect(existsSync(join(two, "second.txt"))).toBe(true);
  });
});

describe("--force in the middle of something", () => {
  test("of a merge with conflicts", async () => {
    const ada = await left("merging");
    commit(ada, "edit.txt", "one\nhers\nthree\n");
    ada.git("branch", "other-side", "main");
    ada.git("checkout", "--quiet", "other-side");
    commit(ada, "edit.txt", "one\ntheirs\nthree\n");
    ada.git("checkout", "--quiet", ada.branch);
    ada.gitFails("merge", "other-side");
    expect(ada.git("status", "--porcelain")).toContain("UU edit.txt");
    expect((await isRefused(ada)).stderr).toContain("edit.txt");
    const place = await comesBack(ada);
    expect(versionsIn(place, "edit.txt")).toContain("one\nhers\nthree");
    fleet.repo.git("branch", "-D", "other-side");
  });

  test("of a merge with conflicts, where something else was staged and then changed", async () => {
    const ada = await left("merging-staged");
    commit(ada, "edit.txt", "one\nhers\nthree\n");
    ada.git("branch", "another-side", "main");
    ada.git("checkout", "--quiet", "another-side");
    commit(ada, "edit.txt", "one\ntheirs\nthree\n");
    ada.git("checkout", "--quiet", ada.branch);
    ada.gitFails("merge", "another-side");
    ada.write("README.md", "staged amid the merge\n");
    ada.git("add", "README.md");
    ada.write("README.md", "and changed again\n");
    const place = await comesBack(ada);
    expect(versionsIn(place, "README.md")).toContain("staged amid the merge");
    fleet.repo.git("branch", "-D", "another-side");
  });

  test("of a rebase, with its head detached, the branch's commits included", async () => {
    const ada = await left("rebasing");
    const first = commit(ada, "rebasing-1.txt", "first\n");
    const tip = commit(ada, "edit.txt", "one\nrebased\nthree\n");
    ada.git("branch", "upstream-side", "main");
    ada.git("checkout", "--quiet", "upstream-side");
    commit(ada, "edit.txt", "one\nupstream\nthree\n");
    ada.git("checkout", "--quiet", ada.branch);
    ada.gitFails("rebase", "upstream-side");
    expect(ada.git("rev-parse", "--abbrev-ref", "HEAD")).toBe("HEAD");
    ada.write("amid.txt", "written amid the rebase\n");
    const place = await comesBack(ada);
    const kept = gitAt(place, ["rev-list", "HEAD"]).split("\n");
    expect(kept).toContain(tip);
    expect(kept).toContain(first);
    fleet.repo.git("branch", "-D", "upstream-side");
  });

  test("of a rebase that has put changes aside", async () => {
    const ada = await left("autostash");
    commit(ada, "edit.txt", "one\nmine\nthree\n");
    ada.git("branch", "other-side", "main");
    ada.git("checkout", "--quiet", "other-side");
    commit(ada, "edit.txt", "one\ntheirs\nthree\n");
    ada.git("checkout", "--quiet", ada.branch);
    ada.write("tool.sh", "#!/bin/sh\necho in no commit yet\n");
    ada.gitFails("rebase", "--autostash", "other-side");
    expect(ada.git("status", "--porcelain")).not.toContain("tool.sh");
    const place = await comesBack(ada);
    expect(versionsIn(place, "tool.sh")).toContain("#!/bin/sh\necho in no commit yet");
    fleet.repo.git("branch", "-D", "other-side");
  });

  test.each(["assume-unchanged", "skip-worktree"])(
    "with a changed file that git was told to %s",
    async (flag) => {
      const ada = await left(`told-to-${flag}`);
      ada.git("update-index", `--${flag}`, "edit.txt");
      ada.write("edit.txt", "changed where git does not look\n");
      expect(ada.git("status", "--porcelain")).toBe("");
      expect((await isRefused(ada)).stderr).toContain("edit.txt");
      for (const file of ["moved.txt", "gone.txt"]) ada.git("update-index", `--${flag}`, file);
      unlinkSync(join(ada.path, "gone.txt"));
      const place = bringBack(await cleanedByForce(ada));
      expect(gitAt(place, ["show", "HEAD:edit.txt"])).toBe("changed where git does not look");
      expect(gitAt(place, ["diff", "--name-only", "main", "HEAD"])).toBe("edit.txt");
    },
  );

  test("with a sparse checkout, and work outside of it", async () => {
    const ada = await left("sparse");
    ada.git("sparse-checkout", "set", "--no-cone", "/README.md");
    ada.write("edit.txt", "changed outside of what is checked out\n");
    const place = bringBack(await cleanedByForce(ada));
    expect(gitAt(place, ["show", "HEAD:edit.txt"])).toBe("changed outside of what is checked out");
    expect(gitAt(place, ["diff", "--name-only", "main", "HEAD"])).toBe("edit.txt");
  });

  test("with the worktree on another branch than its own, which stays", async () => {
    const ada = await left("elsewhere");
    const own = commit(ada, "own.txt", "on her own branch\n");
    ada.git("checkout", "--quiet", "-b", "feature/elsewhere");
    const other = commit(ada, "other.txt", "on the other\n");
    ada.write("uncommitted.txt", "and uncommitted\n");
    const place = await comesBack(ada);
    const kept = gitAt(place, ["rev-list", "HEAD"]).split("\n");
    expect(kept).toContain(own);
    expect(kept).toContain(other);
    expect(fleet.repo.git("rev-parse", "feature/elsewhere")).toBe(other);
  });

  test("with a detached head that holds commits, which no branch leads to", async () => {
    const ada = await left("detached");
    ada.git("checkout", "--quiet", "--detach");
    const lost = commit(ada, "detached.txt", "on no branch\n");
    const refused = await isRefused(ada);
    expect(refused.stderr).toContain("overseer worktree clean detached --force");
    const place = await comesBack(ada);
    expect(gitAt(place, ["rev-list", "HEAD"]).split("\n")).toContain(lost);
  });

  test("with a detached head whose folder was removed by hand", async () => {
    const ada = await left("detached-gone");
    ada.git("checkout", "--quiet", "--detach");
    const lost = commit(ada, "detached-gone.txt", "on no branch\n");
    rmSync(ada.path, { recursive: true });
    const place = bringBack(await cleanedByForce(ada));
    expect(gitAt(place, ["rev-list", "HEAD"]).split("\n")).toContain(lost);
  });

  test("with the worktree's folder removed by hand and its branch left", async () => {
    const ada = await left("folder-gone");
    const tip = commit(ada, "folder-gone.txt", "work\n");
    const before = filesIn(ada.path);
    rmSync(ada.path, { recursive: true });
    const refused = await isRefused(ada);
    expect(refused.stderr).toContain("overseer worktree clean folder-gone --force");
    const place = bringBack(await cleanedByForce(ada));
    expect(filesIn(place)).toEqual(before);
    expect(gitAt(place, ["rev-list", "HEAD"]).split("\n")).toContain(tip);
    expect(checkouts(fleet)).not.toContain(ada.path);
  });

  test("with the branch deleted by hand and the worktree left", async () => {
    const ada = await left("branch-gone");
    commit(ada, "branch-gone.txt", "committed\n");
    ada.write("untracked.txt", "and not\n");
    fleet.repo.git("update-ref", "-d", `refs/heads/${ada.branch}`);
    await isRefused(ada);
    await comesBack(ada);
  });

  test("with a locked worktree: refused before anything is made, and done once it is unlocked", async () => {
    const ada = await left("locked");
    ada.write("locked.txt", "work\n");
    fleet.repo.git("worktree", "lock", "--reason", "on a disk that comes and goes", ada.path);
    const refused = await isRefused(ada, "--force");
    expect(refused.stderr).toContain("git worktree unlock");
    fleet.repo.git("worktree", "unlock", ada.path);
    await comesBack(ada);
  });

  test("with the index locked by a git that was killed: what is staged is not lost", async () => {
    const ada = await left("index-lock");
    ada.write("edit.txt", "what was staged\n");
    ada.git("add", "edit.txt");
    ada.write("edit.txt", "what was written after that\n");
    const lock = ada.git("rev-parse", "--path-format=absolute", "--git-path", "index.lock");
    await Bun.write(lock, "");
    await Bun.write(join(fleet.root, ".git/index.lock"), "");
    try {
      const place = await comesBack(ada);
      expect(versionsIn(place, "edit.txt")).toContain("what was staged");
    } finally {
      rmSync(lock, { force: true });
      rmSync(join(fleet.root, ".git/index.lock"), { force: true });
    }
  });
});

describe("repositories inside of a worktree", () => {
  function innerRepo(path: string, file = "inner.txt"): string {
    mkdirSync(path, { recursive: true });
    gitAt(path, ["init", "--quiet"]);
    gitAt(path, ["config", "user.name", "Test"]);
    gitAt(path, ["config", "user.email", "test@example.invalid"]);
    Bun.spawnSync(["sh", "-c", 'echo inner > "$1"', "sh", join(path, file)]);
    gitAt(path, ["add", "--all"]);
    gitAt(path, ["commit", "--quiet", "--message", "inner"]);
    return gitAt(path, ["rev-parse", "HEAD"]);
  }

  test("one that is untracked is refused, not lost, and says what to do", async () => {
    const ada = await left("inner");
    innerRepo(join(ada.path, "vendor/inner"));
    const refused = await isRefused(ada, "--force");
    expect(refused.stderr).toContain("vendor/inner");
    expect(refused.stderr).toContain("move it out");
    renameSync(join(ada.path, "vendor/inner"), join(outer.path, "inner-moved"));
    expect((await clean("inner")).exitCode).toBe(0);
  });

  test("one without a commit is refused by name as well", async () => {
    const ada = await left("inner-empty");
    mkdirSync(join(ada.path, "inner"));
    gitAt(join(ada.path, "inner"), ["init", "--quiet"]);
    ada.write("inner/file.txt", "uncommitted in a repository of its own\n");
    const refused = await isRefused(ada, "--force");
    expect(refused.stderr).toContain("inner");
    expect(refused.stderr).toContain("move it out");
  });

  test("one that was committed as no more than a link is not lost, even when that commit has landed", async () => {
    const ada = await left("inner-link");
    innerRepo(join(ada.path, "linked"));
    ada.git("add", "--all");
    ada.git("commit", "--quiet", "--message", "a repository as a link");
    const refused = await isRefused(ada, "--force");
    expect(refused.stderr).toContain("linked");
    fleet.repo.git("merge", "--quiet", "--no-edit", ada.branch);
    await isRefused(ada);
    fleet.repo.git("rm", "--quiet", "--cached", "linked");
    fleet.repo.git("commit", "--quiet", "--message", "without the link");
  });

  describe("submodules", () => {
    async function withSubmodule(name: string): Promise<Left & { inside: string }> {
      const source = join(outer.path, `library-${name}`);
      innerRepo(source, "library.txt");
      const ada = await left(name);
      const allow = ["-c", "protocol.file.allow=always"];
      ada.git(...allow, "submodule", "--quiet", "add", source, "library");
      ada.git("commit", "--quiet", "--message", "a submodule");
      const inside = join(ada.path, "library");
      gitAt(inside, ["config", "user.name", "Test"]);
      gitAt(inside, ["config", "user.email", "test@example.invalid"]);
      return { ...ada, inside };
    }

    test("an untouched one is in nobody's way", async () => {
      const ada = await withSubmodule("sub-clean");
      const tip = ada.git("rev-parse", "HEAD");
      const place = bringBack(await cleanedByForce(ada));
      expect(gitAt(place, ["rev-list", "HEAD"]).split("\n")).toContain(tip);
      expect(gitAt(place, ["ls-tree", "HEAD", "library"])).toContain("commit");
    });

    test("one with a changed file is refused, not lost", async () => {
      const ada = await withSubmodule("sub-dirty");
      ada.write("library/library.txt", "changed inside\n");
      const refused = await isRefused(ada, "--force");
      expect(refused.stderr).toContain("library");
    });

    test("one with a commit that is nowhere else is refused, not lost", async () => {
      const ada = await withSubmodule("sub-commit");
      ada.write("library/library.txt", "changed inside\n");
      gitAt(ada.inside, ["commit", "--quiet", "--all", "--message", "only here"]);
      const refused = await isRefused(ada, "--force");
      expect(refused.stderr).toContain("library");
    });

    test("the same when the commit that names it was made, too", async () => {
      const ada = await withSubmodule("sub-named");
      ada.write("library/library.txt", "changed inside\n");
      gitAt(ada.inside, ["commit", "--quiet", "--all", "--message", "only here"]);
      ada.git("commit", "--quiet", "--all", "--message", "names a commit that is nowhere else");
      const refused = await isRefused(ada, "--force");
      expect(refused.stderr).toContain("library");
    });
  });
});

describe("a folder that git does not take for a worktree any more", () => {
  test("without its .git file it is not mistaken for the repository around it", async () => {
    const ada = await left("no-git-file");
    ada.write("edit.txt", "work that is in no commit\n");
    unlinkSync(join(ada.path, ".git"));
    // Nothing to see in the repository around it, which would be taken for uncommitted work.
    const exclude = fleet.repo.write(".git/info/exclude", "/.overseer/\n/.claude/\n");
    try {
      expect((await isRefused(ada)).stderr).toContain(ada.path);
      expect((await isRefused(ada, "--force")).stderr).toContain(ada.path);
    } finally {
      rmSync(exclude);
    }
  });

  test("without git's record of it the work in it is refused, not lost", async () => {
    const ada = await left("no-record");
    ada.write("untracked.txt", "work that is in no commit\n");
    rmSync(join(fleet.root, ".git/worktrees/no-record"), { recursive: true });
    expect((await isRefused(ada)).stderr).toContain(ada.path);
    expect((await isRefused(ada, "--force")).stderr).toContain(ada.path);
  });

  test("a worktree that has become a folder of anything is refused without a row, too", async () => {
    const path = fleet.worktree("somebodys-notes");
    mkdirSync(path, { recursive: true });
    await Bun.write(join(path, "notes.txt"), "a person's\n");
    for (const args of [[], ["--force"]]) {
      const answer = await clean("somebodys-notes", ...args);
      expect(answer.exitCode).not.toBe(0);
      expect(existsSync(join(path, "notes.txt"))).toBe(true);
    }
    rmSync(path, { recursive: true });
  });
});

describe("a repository that was moved, or whose worktrees lie behind a link", () => {
  test("after a move, uncommitted work is refused, not lost", async () => {
    using place = tempFolder("overseer-moved-");
    const before = join(place.path, "before");
    await using moved = await standInFleet({ repo: repoAt(place, "before", FILES) });
    const ada = await left("ada", moved);
    ada.write("untracked.txt", "work that is in no commit\n");
    const after = join(place.path, "after");
    renameSync(before, after);
    for (const args of [["ada"], ["ada", "--force"], ["--all"]]) {
      const answer = await moved.overseer(["worktree", "clean", ...args], { cwd: after });
      expect(answer.exitCode).toBe(1);
      expect(existsSync(join(after, ".overseer/worktrees/ada/untracked.txt"))).toBe(true);
    }
    gitAt(after, ["worktree", "repair", join(after, ".overseer/worktrees/ada")]);
    const cleaned = await moved.overseer(["worktree", "clean", "ada", "--force", "--json"], { cwd: after });
    const [removed] = cleaned.data<{ removed: { rescueRef: string }[] }>().removed;
    expect(gitAt(after, ["show", `${removed?.rescueRef}:untracked.txt`])).toBe("work that is in no commit");
    renameSync(after, before);
  });

  test("with .overseer/worktrees as a link to another disk, uncommitted work is seen and saved", async () => {
    using place = tempFolder("overseer-linked-");
    await using linked = await standInFleet({ repo: repoAt(place, "repo", FILES) });
    const disk = join(place.path, "disk");
    mkdirSync(disk);
    rmSync(join(linked.root, ".overseer/worktrees"), { recursive: true, force: true });
    symlinkSync(disk, join(linked.root, ".overseer/worktrees"));
    const ada = await left("ada", linked);
    ada.write("untracked.txt", "work that is in no commit\n");
    const refused = await linked.overseer(["worktree", "clean", "ada"]);
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toContain("untracked.txt");
    const cleaned = await linked.overseer(["worktree", "clean", "ada", "--force"]);
    expect(cleaned.exitCode).toBe(0);
    expect(existsSync(join(bringBack(cleaned, linked), "untracked.txt"))).toBe(true);
    expect(existsSync(join(disk, "ada"))).toBe(false);
  });
});

describe("a repository with its own ideas", () => {
  test("no identity, signing demanded, and hooks that forbid commits: all is saved the same", async () => {
    using place = tempFolder("overseer-strict-");
    const repo = repoAt(place, "repo", FILES);
    await using strict = await standInFleet({ repo });
    const ada = await left("ada", strict);
    commit(ada, "work.txt", "committed\n");
    ada.write("untracked.txt", "untracked\n");
    const before = filesIn(ada.path);
    repo.git("config", "--unset", "user.name");
    repo.git("config", "--unset", "user.email");
    repo.git("config", "user.useConfigOnly", "true");
    repo.git("config", "commit.gpgSign", "true");
    repo.git("config", "gpg.program", "/bin/false");
    repo.git("config", "core.logAllRefUpdates", "always");
    const log = join(place.path, "hooks.log");
    for (const hook of ["pre-commit", "commit-msg", "post-checkout", "pre-auto-gc"]) {
      repo.write(`.git/hooks/${hook}`, `#!/bin/sh\necho ${hook} >> '${log}'\nexit 1\n`, 0o755);
    }
    repo.write(".git/hooks/reference-transaction", `#!/bin/sh\necho "$1" >> '${log}'\n`, 0o755);
    const answer = await strict.overseer(["worktree", "clean", "ada", "--force"]);
    expect(answer.stderr).toBe("");
    expect(filesIn(bringBack(answer, strict))).toEqual(before);
    expect(await Bun.file(log).text()).not.toContain("pre-commit");
  });

  test("a hook that vetoes the rescue ref stops everything before anything is removed", async () => {
    using place = tempFolder("overseer-veto-");
    const repo = repoAt(place, "repo", FILES);
    await using vetoed = await standInFleet({ repo });
    const ada = await left("ada", vetoed);
    ada.write("untracked.txt", "untracked\n");
    const veto = '#!/bin/sh\n[ "$1" = prepared ] && grep -q refs/overseer/ && exit 1\nexit 0\n';
    repo.write(".git/hooks/reference-transaction", veto, 0o755);
    const before = wholeState(vetoed, "ada");
    const answer = await vetoed.overseer(["worktree", "clean", "ada", "--force"]);
    expect(answer.exitCode).toBe(1);
    expect(wholeState(vetoed, "ada")).toEqual(before);
    expect(rescueRefs(vetoed)).toEqual([]);
  });

  test("the repository's own CLAUDE.md in the way: ours is neither work nor saved", async () => {
    using place = tempFolder("overseer-overlay-");
    const repo = repoAt(place, "repo", { ...FILES, ".claude/CLAUDE.md": "the project's own\n" });
    await using tracked = await standInFleet({ repo });
    const ada = await left("ada", tracked);
    expect(existsSync(join(ada.path, "CLAUDE.local.md"))).toBe(true);
    const list = await tracked.overseer(["worktree", "list", "--json"]);
    expect(list.data<{ worktrees: object[] }>().worktrees).toEqual([
      expect.objectContaining({ name: "ada", uncommitted: [], isLanded: true }),
    ]);
    ada.write(".claude/CLAUDE.md", "the project's own, changed\n");
    const place2 = bringBack(await tracked.overseer(["worktree", "clean", "ada", "--force"]), tracked);
    expect(await Bun.file(join(place2, ".claude/CLAUDE.md")).text()).toBe("the project's own, changed\n");
    expect(existsSync(join(place2, "CLAUDE.local.md"))).toBe(false);
  });
});
