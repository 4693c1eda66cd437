import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type Answer, snapshot, UNPRINTABLE } from "./support/cli.ts";
import type { Fleet } from "./support/fleet.ts";
import {
  completedWorker,
  deadWorker,
  filesIn,
  gitAt,
  isAlive,
  paneNames,
  refsOf,
  repoAt,
  rescueRefs,
  rowsOf,
  standInFleet,
  wholeState,
} from "./support/stand-in-claude.ts";
import { tempFolder } from "./support/temp.ts";
import { until } from "./support/until.ts";

const MANY = "agents: { maxConcurrent: 100 }\n";
const LINES = "one\ntwo\nthree\nfour\nfive\n";

function commitIn(at: string, file: string, content: string): string {
  mkdirSync(join(at, file, ".."), { recursive: true });
  writeFileSync(join(at, file), content);
  gitAt(at, ["add", "--", file]);
  gitAt(at, ["commit", "--quiet", "--message", `${file} changed`]);
  return gitAt(at, ["rev-parse", "HEAD"]);
}

function isLeft(fleet: Fleet, name: string): { worktree: boolean; branch: boolean; pane: boolean } {
  return {
    worktree: existsSync(fleet.worktree(name)),
    branch: refsOf(fleet).some((ref) => ref.startsWith(`refs/heads/overseer/${name}/`)),
    pane: paneNames(fleet).includes(`overseer-${name}`),
  };
}

const NOTHING = { worktree: false, branch: false, pane: false };

function taskStatus(fleet: Fleet, id: string): string | undefined {
  const tasks = rowsOf(fleet).tasks as { id: string; status: string }[];
  return tasks.find((task) => task.id === id)?.status;
}

function stateOf(fleet: Fleet, name: string): string | undefined {
  const sessions = rowsOf(fleet).sessions as { name: string; state: string }[];
  return sessions.findLast((session) => session.name === name)?.state;
}

describe("worktree clean of work that has landed", () => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await standInFleet({ config: MANY, files: { "README.md": "# test\n" } });
  });
  afterAll(() => fleet[Symbol.asyncDispose]());

  interface Landing {
    name: string;
    how: string;
    /** Beside two commits to a file of the worker's own. */
    land: (branch: string, file: string) => void;
  }
  const main = (...args: string[]) => fleet.repo.git(...args);
  const squash = (branch: string) => {
    main("merge", "--quiet", "--squash", branch);
    main("commit", "--quiet", "--message", `squashed ${branch}`);
  };
  const goOn = (file: string) => commitIn(fleet.root, file, LINES.replace("two", "something else by now"));
  const apart = () => main("commit", "--quiet", "--allow-empty", "--message", "main has gone on");
  const pick = (branch: string) => {
    apart();
    main("cherry-pick", `main..${branch}`);
  };

  const LANDED: Landing[] = [
    {
      name: "by-merge",
      how: "a merge commit",
      land: (branch) => main("merge", "--no-ff", "--no-edit", branch),
    },
    { name: "by-ff", how: "fast-forward", land: (branch) => main("merge", "--ff-only", branch) },
    { name: "by-squash", how: "a squash", land: squash },
    {
      name: "by-squash-on",
      how: "a squash, and the same lines have changed since",
      land: (branch, file) => {
        squash(branch);
        goOn(file);
      },
    },
    { name: "by-pick", how: "cherry-picks, as a rebase makes them", land: pick },
    {
      name: "by-pick-on",
      how: "cherry-picks, and the same lines have changed since",
      land: (branch, file) => {
        pick(branch);
        goOn(file);
      },
    },
    {
      name: "by-merge-back",
      how: "a merge that was reverted since",
      land: (branch) => {
        main("merge", "--no-ff", "--no-edit", branch);
        main("revert", "--no-edit", "-m", "1", "HEAD");
      },
    },
    {
      name: "by-squash-back",
      how: "a squash that was reverted since",
      land: (branch) => {
        squash(branch);
        main("revert", "--no-edit", "HEAD");
      },
    },
    {
      name: "by-chance",
      how: "nobody, but somebody made the same",
      land: (_, file) => {
        apart();
        commitIn(fleet.root, file, LINES.replace("two", "zwei").replace("four", "vier"));
      },
    },
  ];

  test.each(LANDED)("by $how: worktree, branch and pane go, logs stay", async ({ name, land }) => {
    const file = `${name}.txt`;
    commitIn(fleet.root, file, LINES);
    const { branch, taskId } = await deadWorker(fleet, name);
    const work = fleet.worktree(name);
    commitIn(work, file, LINES.replace("two", "zwei"));
    commitIn(work, file, LINES.replace("two", "zwei").replace("four", "vier"));
    land(branch, file);
    const head = main("rev-parse", "HEAD");
    const logs = snapshot(join(fleet.root, ".overseer/logs", name));
    expect(isLeft(fleet, name)).toEqual({ worktree: true, branch: true, pane: true });
    const answer = await fleet.overseer(["worktree", "clean", name]);
    expect(answer.stderr).toBe("");
    expect(answer.stdout).toBe(`Removed ${name} (${branch})\n`);
    expect(isLeft(fleet, name)).toEqual(NOTHING);
    expect(gitAt(fleet.root, ["worktree", "list"])).not.toContain(work);
    expect(Object.keys(logs).length).toBeGreaterThan(0);
    expect(snapshot(join(fleet.root, ".overseer/logs", name))).toMatchObject(logs);
    expect(rescueRefs(fleet)).toEqual([]);
    expect(main("rev-parse", "HEAD")).toBe(head);
    expect(taskStatus(fleet, taskId)).toBe("queued");
  });

  test("without a commit of its own there is nothing to land", async () => {
    const { branch } = await deadWorker(fleet, "idler");
    expect((await fleet.overseer(["worktree", "clean", "idler"])).stdout).toBe(`Removed idler (${branch})\n`);
    expect(isLeft(fleet, "idler")).toEqual(NOTHING);
  });

  test("without a commit of its own, based on another branch that is still there", async () => {
    main("branch", "side");
    commitIn(fleet.root, "moved-on.txt", "main has moved\n");
    const side = gitAt(fleet.root, ["commit-tree", "side^{tree}", "-p", "side", "-m", "only on side"]);
    main("update-ref", "refs/heads/side", side);
    await deadWorker(fleet, "sider", "--base", "side");
    expect((await fleet.overseer(["worktree", "clean", "sider"])).exitCode).toBe(0);
    expect(main("rev-parse", "side")).toBe(side);
  });

  const NOT_LANDED: Landing[] = [
    { name: "not-at-all", how: "nothing of it", land: () => undefined },
    {
      name: "not-last",
      how: "only the first of two commits",
      land: (branch) => {
        apart();
        main("cherry-pick", `${branch}~1`);
      },
    },
    {
      name: "not-after",
      how: "a squash, before the last commit was made",
      land: (branch) => squash(`${branch}~1`),
    },
    {
      name: "not-elsewhere",
      how: "the same words in another file",
      land: () => {
        apart();
        commitIn(fleet.root, "elsewhere.txt", LINES.replace("two", "zwei").replace("four", "vier"));
      },
    },
    {
      name: "not-blank",
      how: "the same but for the indentation",
      land: (_, file) => {
        apart();
        commitIn(fleet.root, file, LINES.replace("two", "  zwei").replace("four", "  vier"));
      },
    },
  ];

  test.each(NOT_LANDED)("when $how has landed, it is refused and nothing changes", async ({ name, land }) => {
    const file = `${name}.txt`;
    commitIn(fleet.root, file, LINES);
    const { branch } = await deadWorker(fleet, name);
    const work = fleet.worktree(name);
    commitIn(work, file, LINES.replace("two", "zwei"));
    commitIn(work, file, LINES.replace("two", "zwei").replace("four", "vier"));
    land(branch, file);
    const before = wholeState(fleet, name);
    const answer = await fleet.overseer(["worktree", "clean", name]);
    expect(answer.exitCode).toBe(1);
    expect(answer.stderr).toContain(`${name} has commits that are not in the canonical branch`);
    expect(answer.stderr).toContain(`overseer worktree clean ${name} --force`);
    expect(wholeState(fleet, name)).toEqual(before);
  });

  test("a file made executable after a squash has not landed", async () => {
    commitIn(fleet.root, "mode.sh", "#!/bin/sh\n");
    const { branch } = await deadWorker(fleet, "moder");
    commitIn(fleet.worktree("moder"), "mode.sh", "#!/bin/sh\necho more\n");
    squash(branch);
    goOn("mode.sh");
    chmodSync(join(fleet.worktree("moder"), "mode.sh"), 0o755);
    gitAt(fleet.worktree("moder"), ["commit", "--quiet", "--all", "--message", "executable"]);
    expect((await fleet.overseer(["worktree", "clean", "moder"])).exitCode).toBe(1);
    expect(isLeft(fleet, "moder").worktree).toBe(true);
  });

  test("a merge driver that keeps one side makes nothing look landed, wherever it is switched on", async () => {
    await using own = await standInFleet({ files: { "a.txt": LINES } });
    await deadWorker(own, "ada");
    commitIn(own.worktree("ada"), "a.txt", LINES.replace("two", "zwei"));
    commitIn(own.root, "a.txt", LINES.replace("two", "deux"));
    own.repo.git("config", "merge.keep.driver", "true");
    const everything = join(own.root, ".git/everything");
    writeFileSync(everything, "* merge=keep\n");
    const switches: [string, () => void, () => void][] = [
      [
        "core.attributesFile",
        () => own.repo.git("config", "core.attributesFile", everything),
        () => own.repo.git("config", "--unset", "core.attributesFile"),
      ],
      [
        "merge.default",
        () => own.repo.git("config", "merge.default", "keep"),
        () => own.repo.git("config", "--unset", "merge.default"),
      ],
      [
        "info/attributes",
        () => own.repo.write(".git/info/attributes", "* merge=keep\n"),
        () => rmSync(join(own.root, ".git/info/attributes")),
      ],
      [".gitattributes", () => commitIn(own.root, ".gitattributes", "* merge=keep\n"), () => {}],
    ];
    for (const [where, on, off] of switches) {
      on();
      const refused = await own.overseer(["worktree", "clean", "ada", "--json"]);
      expect([where, refused.exitCode, refused.stdout]).toEqual([
        where,
        1,
        expect.stringContaining("worktree_unmerged"),
      ]);
      off();
    }
  });

  test("once cleaned, there is nothing left to clean, and that is said", async () => {
    const answer = await fleet.overseer(["worktree", "clean", "idler"]);
    expect(answer.exitCode).toBe(1);
    expect(answer.stderr).toContain("idler has neither a worktree nor a branch");
  });
});

describe("worktree clean of uncommitted work", () => {
  let fleet: Fleet;
  let work: string;
  beforeAll(async () => {
    const files = {
      "README.md": "# test\n",
      "edit.txt": LINES,
      "gone.txt": "gone\n",
      "tool.sh": "#!/bin/sh\n",
    };
    fleet = await standInFleet({ files });
    await deadWorker(fleet, "ada");
    work = fleet.worktree("ada");
  });
  afterAll(() => fleet[Symbol.asyncDispose]());

  const write = (file: string, content: string | Uint8Array = "new\n") => {
    mkdirSync(join(work, file, ".."), { recursive: true });
    writeFileSync(join(work, file), content);
  };
  const KINDS: { kind: string; change: () => void; named: string[] }[] = [
    { kind: "modified", change: () => write("edit.txt"), named: ["edit.txt"] },
    {
      kind: "staged",
      change: () => {
        write("edit.txt");
        gitAt(work, ["add", "edit.txt"]);
      },
      named: ["edit.txt"],
    },
    {
      kind: "staged and put back in the folder",
      change: () => {
        write("edit.txt");
        gitAt(work, ["add", "edit.txt"]);
        write("edit.txt", LINES);
      },
      named: ["edit.txt"],
    },
    { kind: "deleted", change: () => unlinkSync(join(work, "gone.txt")), named: ["gone.txt"] },
    {
      kind: "renamed, beside something untracked",
      change: () => {
        gitAt(work, ["mv", "README.md", "CHANGED.md"]);
        write("untracked.txt");
      },
      named: ["CHANGED.md", "untracked.txt"],
    },
    { kind: "untracked", change: () => write("untracked.txt"), named: ["untracked.txt"] },
    {
      kind: "untracked in a new folder",
      change: () => write("new/deep/file.txt"),
      named: ["new/deep/file.txt"],
    },
    { kind: "made executable", change: () => chmodSync(join(work, "tool.sh"), 0o755), named: ["tool.sh"] },
    { kind: "a link", change: () => symlinkSync("/nowhere", join(work, "link")), named: ["link"] },
    { kind: "binary", change: () => write("some.bin", new Uint8Array([0, 255, 0])), named: ["some.bin"] },
    { kind: "beyond ASCII", change: () => write("größe 日本.txt"), named: ["größe 日本.txt"] },
    { kind: "with a line feed in its name", change: () => write("two\nlines"), named: ["two", "lines"] },
    { kind: "with an escape in its name", change: () => write("\u001b[31mred"), named: ["red"] },
    {
      kind: "more than fits a line",
      change: () => {
        for (let n = 10; n < 40; n++) write(`many/${n}`);
      },
      named: ["many/10", "and 25 more"],
    },
  ];

  test.each(KINDS)("$kind: refused, named, and nothing changes", async ({ change, named }) => {
    gitAt(work, ["reset", "--quiet", "--hard"]);
    gitAt(work, ["clean", "--quiet", "-d", "--force"]);
    change();
    const before = wholeState(fleet, "ada");
    const [one, all, list] = await Promise.all([
      fleet.overseer(["worktree", "clean", "ada"]),
      fleet.overseer(["worktree", "clean", "--all"]),
      fleet.overseer(["worktree", "list"]),
    ]);
    expect(wholeState(fleet, "ada")).toEqual(before);
    expect(one.exitCode).toBe(1);
    expect(all.exitCode).toBe(1);
    expect(list.stdout).toContain("uncommitted");
    for (const said of [one.stderr, all.stdout]) {
      for (const name of named) expect(said).toContain(name);
      expect(said).toContain("overseer worktree clean ada --force");
      expect(said).not.toMatch(UNPRINTABLE);
    }
  });
});

describe("worktree list", () => {
  const byName = (one: { name: string }, other: { name: string }) => one.name.localeCompare(other.name);

  test("tells what each one is, as text and as JSON, and changes nothing", async () => {
    await using fleet = await standInFleet({ config: MANY });
    expect((await fleet.overseer(["worktree", "list"])).stdout).toBe("There are no worktrees.\n");
    const ada = await deadWorker(fleet, "ada");
    commitIn(fleet.worktree("ada"), "ada.txt", "work\n");
    writeFileSync(join(fleet.worktree("ada"), "more.txt"), "uncommitted\n");
    const bob = await deadWorker(fleet, "bob");
    const cyd = await deadWorker(fleet, "cyd");
    commitIn(fleet.worktree("cyd"), "cyd.txt", "work\n");
    rmSync(fleet.worktree("cyd"), { recursive: true });
    const dan = await fleet.sling("dan", "Do something for a while");
    fleet.repo.git("worktree", "add", "--quiet", "--detach", fleet.worktree("orphan"));
    const before = wholeState(fleet, "ada", "bob", "cyd", "dan", "orphan");
    const isObject = (path: string) => path.startsWith("objects/");
    const git = () => snapshot(join(fleet.root, ".git"), { hasTimes: true, except: isObject });
    const [gitBefore, text] = [git(), await fleet.overseer(["worktree", "list"])];
    const { worktrees } = (await fleet.overseer(["worktree", "list", "--json"])).data<{
      worktrees: { name: string }[];
    }>();
    expect(wholeState(fleet, "ada", "bob", "cyd", "dan", "orphan")).toEqual(before);
    expect(git()).toEqual(gitBefore);
    const line = { uncommitted: [], isLanded: true, obstacle: null };
    expect<object[]>(worktrees.toSorted(byName)).toEqual([
      {
        ...{ name: "ada", state: "zombie", taskId: ada.taskId, branch: ada.branch },
        ...{ worktree: fleet.worktree("ada"), uncommitted: ["more.txt"], isLanded: false, obstacle: null },
      },
      {
        ...line,
        name: "bob",
        state: "zombie",
        taskId: bob.taskId,
        branch: bob.branch,
        worktree: bob.worktree,
      },
      {
        ...line,
        name: "cyd",
        state: "zombie",
        taskId: cyd.taskId,
        branch: cyd.branch,
        worktree: null,
        isLanded: false,
      },
      {
        ...line,
        name: "dan",
        state: "working",
        taskId: dan.taskId,
        branch: dan.branch,
        worktree: dan.worktree,
      },
      {
        ...line,
        name: "orphan",
        state: null,
        taskId: null,
        branch: null,
        worktree: fleet.worktree("orphan"),
      },
    ]);
    const lines = text.stdout.trimEnd().split("\n").toSorted();
    expect(lines).toHaveLength(5);
    expect(lines[0]).toMatch(/^ada +zombie +overseer\/ada\/\S+ +1 uncommitted, not landed$/);
    expect(lines[1]).toMatch(/^bob .* nothing to lose$/);
    expect(lines[2]).toMatch(/^cyd .* branch only, not landed$/);
    expect(lines[4]).toMatch(/^orphan +nobody's .* nothing to lose$/);
  });
});

describe("worktree clean of several", () => {
  test("--all --force saves each under a command of its own, keeps the live, and frees the tasks", async () => {
    using outer = tempFolder("overseer-several-");
    const repo = repoAt(outer, "repo", { "README.md": "# test\n", "edit.txt": LINES });
    await using fleet = await standInFleet({ repo, config: MANY });
    const agents = {
      modified: await deadWorker(fleet, "modified"),
      untracked: await deadWorker(fleet, "untracked"),
      unmerged: await deadWorker(fleet, "unmerged", "--files", "src/unmerged"),
      empty: await deadWorker(fleet, "empty"),
      waiting: await completedWorker(
        fleet,
        "waiting",
        "echo 1 > w && git add w && git commit -qm w",
        "--files",
        "w",
      ),
    };
    const live = await fleet.sling("living", "Go on for a while");
    const stopped = await fleet.sling("stopped", "Go on until you are stopped");
    expect((await fleet.overseer(["stop", "stopped"])).exitCode).toBe(0);
    writeFileSync(join(fleet.worktree("modified"), "edit.txt"), "modified\n");
    writeFileSync(join(fleet.worktree("untracked"), "new.txt"), "untracked\n");
    commitIn(fleet.worktree("unmerged"), "src/unmerged/x", "unmerged\n");
    expect((rowsOf(fleet).merge_entries as { status: string }[]).map(({ status }) => status)).toEqual([
      "pending",
    ]);
    const saved = ["modified", "untracked", "unmerged", "waiting"];
    const before = Object.fromEntries(saved.map((name) => [name, filesIn(fleet.worktree(name))]));

    const answer = await fleet.overseer(["worktree", "clean", "--all", "--force"]);

    expect(answer.exitCode).toBe(0);
    expect(answer.stdout).toContain("still alive, left alone: living (overseer stop living)");
    expect(answer.stdout).not.toContain("Kept");
    expect(isLeft(fleet, "living")).toEqual({ worktree: true, branch: true, pane: true });
    expect(await isAlive(live.pid)).toBe(true);
    for (const name of [...Object.keys(agents), "stopped"]) {
      expect(answer.stdout).toContain(`Removed ${name} (`);
      expect(isLeft(fleet, name)).toEqual(NOTHING);
    }
    const commands = answer.stdout.split("\n").filter((line) => line.trim().startsWith("git "));
    expect(commands).toHaveLength(saved.length);
    expect(rescueRefs(fleet)).toHaveLength(saved.length);
    for (const name of saved) {
      const [command = "", ...others] = commands.filter((line) => line.includes(`/rescue/${name}/`));
      expect(others).toEqual([]);
      const ran = Bun.spawnSync(["sh", "-c", command], { env: { PATH: process.env.PATH } });
      expect(ran.exitCode).toBe(0);
      const checkouts = gitAt(fleet.root, ["worktree", "list", "--porcelain"]);
      const place = new RegExp(`^worktree (.*)\\n.*\\nbranch refs/heads/rescued/${name}/`, "m").exec(
        checkouts,
      )?.[1];
      expect(filesIn(place ?? "nowhere")).toEqual(before[name] ?? {});
    }
    for (const { taskId } of [...Object.values(agents), stopped])
      expect(taskStatus(fleet, taskId)).toBe("queued");
    expect(taskStatus(fleet, live.taskId)).toBe("in_progress");
    expect((rowsOf(fleet).merge_entries as { status: string }[]).map(({ status }) => status)).toEqual([
      "aborted",
    ]);
    await deadWorker(fleet, "next", "--files", "src/unmerged/x,w");
    const again = await fleet.overseer([
      "sling",
      agents.waiting.taskId,
      "--name",
      "heir",
      "--capability",
      "builder",
    ]);
    expect(again.stderr).toBe("");
    expect(again.exitCode).toBe(0);
  });

  test("--completed takes those that have completed and landed, names the others, and leaves the rest alone", async () => {
    await using fleet = await standInFleet({ config: MANY });
    const commit = (file: string) => `echo ${file} > ${file} && git add . && git commit -qm ${file}`;
    const landed = await completedWorker(fleet, "landed", commit("landed"));
    const open = await completedWorker(fleet, "open", commit("open"));
    const nothing = await completedWorker(fleet, "nothing", "true");
    const dead = await deadWorker(fleet, "dead");
    fleet.repo.git("merge", "--quiet", "--no-edit", landed.branch);
    const before = wholeState(fleet, "open", "dead");
    const answer = await fleet.overseer(["worktree", "clean", "--completed", "--json"]);
    expect(answer.exitCode).toBe(1);
    const { data } = JSON.parse(answer.stdout);
    expect(data.removed.map(({ name }: { name: string }) => name).toSorted()).toEqual(["landed", "nothing"]);
    expect(data.refused).toEqual([expect.objectContaining({ name: "open", code: "worktree_unmerged" })]);
    expect(isLeft(fleet, "landed")).toEqual(NOTHING);
    expect(isLeft(fleet, "nothing")).toEqual(NOTHING);
    expect(wholeState(fleet, "open", "dead").worktrees).toEqual(before.worktrees);
    expect(isLeft(fleet, "dead").branch).toBe(true);
    expect(stateOf(fleet, "dead")).toBe("working");
    // Said to be done by somebody who was: what has landed, or needed not to, is not begun anew.
    expect(taskStatus(fleet, nothing.taskId)).toBe("done");
    expect(taskStatus(fleet, landed.taskId)).toBe("done");
    const forced = await fleet.overseer(["worktree", "clean", "--completed", "--force"]);
    expect(forced.exitCode).toBe(0);
    expect(isLeft(fleet, "open")).toEqual(NOTHING);
    expect(taskStatus(fleet, open.taskId)).toBe("queued");
    expect(isLeft(fleet, "dead").worktree).toBe(true);
    expect(taskStatus(fleet, dead.taskId)).toBe("in_progress");
  });

  test("what is asked for wrongly, or by a worker, is refused and changes nothing", async () => {
    await using fleet = await standInFleet();
    const ada = await fleet.sling("ada", "Go on for a while");
    await deadWorker(fleet, "bob");
    const before = wholeState(fleet, "ada", "bob");
    const call = (...args: string[]) => fleet.overseer(["worktree", "clean", ...args, "--json"]);
    for (const args of [
      [],
      ["--force"],
      ["bob", "--all"],
      ["bob", "--completed"],
      ["--all", "--completed"],
    ]) {
      const answer = await call(...args);
      expect(answer.exitCode).toBe(64);
      expect(answer.error().code).toBe("usage");
    }
    const unknown = await call("bobb", "--force");
    expect(unknown.exitCode).toBe(64);
    expect(unknown.error().hint).toContain("bob");
    for (const name of ["../ada", "/etc", ".", "", "orchestrator", "a/b"]) {
      expect((await call(name, "--force")).exitCode).not.toBe(0);
    }
    const living = await call("ada", "--force");
    expect(living.exitCode).toBe(1);
    expect(living.error()).toMatchObject({ code: "still_alive", hint: "overseer stop ada" });
    const words = ["worktree", "clean", "bob", "--force", "--json"];
    expect((await fleet.overseer(words, { cwd: ada.worktree })).exitCode).toBe(1);
    expect((await fleet.overseer(words, { env: { OVERSEER_AGENT_NAME: "ada" } })).exitCode).toBe(1);
    expect(wholeState(fleet, "ada", "bob")).toEqual(before);
  });

  test("a worker may not clean, neither others' nor its own", async () => {
    await using fleet = await standInFleet();
    await deadWorker(fleet, "bob");
    const said = join(fleet.home.path, "said");
    const tries = ["bob --force", "ada", "--all --force"].map(
      (what) => `overseer worktree clean ${what} --json`,
    );
    const env = { STAND_IN_DOES: `(${tries.join("; ")}) > '${said}'; touch '${said}.all'` };
    const words = ["sling", "Clean up everything", "--name", "ada", "--capability", "builder"];
    expect((await fleet.overseer(words, { env })).exitCode).toBe(0);
    await until("ada has tried", () => existsSync(`${said}.all`), { timeoutMs: 30_000 });
    const answers = readFileSync(said, "utf8").trim().split("\n");
    expect(answers.map((line) => JSON.parse(line).error.code)).toEqual(["not_you", "not_you", "not_you"]);
    expect(isLeft(fleet, "bob")).toMatchObject({ worktree: true, branch: true });
    expect(isLeft(fleet, "ada")).toEqual({ worktree: true, branch: true, pane: true });
  });
});

describe(".worktreeinclude", () => {
  const IGNORE = ".env*\nconfig/\nsecrets/\n*.local\nlink*\nbuild/\nkept.txt\n";

  test("copies what it lists as it is, and nothing that git tracks", async () => {
    await using fleet = await standInFleet({
      files: { ".gitignore": IGNORE, "tracked.local": "tracked\n", "README.md": "# test\n" },
      config: MANY,
    });
    fleet.repo.git("add", "--force", "tracked.local");
    fleet.repo.git("commit", "--quiet", "--allow-empty", "--message", "tracked although ignored");
    fleet.repo.write(".env", "KEY=value\n", 0o600);
    fleet.repo.write("config/deep/local.json", "{}\n");
    fleet.repo.write("config/run", "#!/bin/sh\n", 0o755);
    fleet.repo.write("secrets/a.key", "a\n");
    fleet.repo.write("secrets/public.key", "public\n");
    fleet.repo.write("größe.local", "beyond ASCII\n");
    fleet.repo.write("tracked.local", "changed in the main checkout\n");
    fleet.repo.write("build/output", "not listed\n");
    symlinkSync(".env", join(fleet.root, "link"));
    symlinkSync("/nowhere/at/all", join(fleet.root, "link-dangling"));
    symlinkSync("config", join(fleet.root, "link-folder"));
    const list =
      "# what workers need\n.env\nconfig/\n/secrets/*\n!public.key\n*.local\nlink*\nno/such/file\n";
    fleet.repo.write(".worktreeinclude", list);
    const { worktree } = await deadWorker(fleet, "ada");
    const read = (file: string) => readFileSync(join(worktree, file), "utf8");
    expect(read(".env")).toBe("KEY=value\n");
    expect(lstatSync(join(worktree, ".env")).mode & 0o777).toBe(0o600);
    expect(read("config/deep/local.json")).toBe("{}\n");
    expect(lstatSync(join(worktree, "config/run")).mode & 0o777).toBe(0o755);
    expect(readdirSync(join(worktree, "secrets"))).toEqual(["a.key"]);
    expect(read("größe.local")).toBe("beyond ASCII\n");
    expect(read("tracked.local")).toBe("tracked\n");
    expect(existsSync(join(worktree, "build"))).toBe(false);
    expect(readlinkSync(join(worktree, "link"))).toBe(".env");
    expect(readlinkSync(join(worktree, "link-dangling"))).toBe("/nowhere/at/all");
    expect(readlinkSync(join(worktree, "link-folder"))).toBe("config");
    // The worker's own copies: a change there does not reach the person's.
    writeFileSync(join(worktree, "config/run"), "changed\n");
    expect(readFileSync(join(fleet.root, "config/run"), "utf8")).toBe("#!/bin/sh\n");
    const cleaned = await fleet.overseer(["worktree", "clean", "ada", "--force"]);
    expect(cleaned.stdout).toContain("Removed ada");
    expect(readFileSync(join(fleet.root, ".env"), "utf8")).toBe("KEY=value\n");
  });

  test("listing everything copies nothing of overseer's, no other worktree, and no settings of the orchestrator", async () => {
    await using fleet = await standInFleet({ config: `${MANY}worktrees: { baseDir: .trees }\n` });
    fleet.repo.write(".git/info/exclude", ".env\n.claude/\n.overseer/\n.trees/\n");
    fleet.repo.write(".env", "KEY=value\n");
    fleet.repo.write(".worktreeinclude", "*\n");
    const ada = await deadWorker(fleet, "ada");
    expect(ada.worktree).toBe(join(fleet.root, ".trees/ada"));
    const bob = await deadWorker(fleet, "bob");
    const top = readdirSync(bob.worktree).toSorted();
    expect(top).toContain(".env");
    expect(top).not.toContain(".overseer");
    expect(top).not.toContain(".trees");
    expect(existsSync(join(fleet.root, ".claude/settings.local.json"))).toBe(true);
    expect(existsSync(join(bob.worktree, ".claude/settings.local.json"))).toBe(false);
    expect(readFileSync(join(bob.worktree, ".claude/CLAUDE.md"), "utf8")).toContain("bob");
  });

  test("nothing is written through a link of the base commit that leads out or nowhere, nor below a file", async () => {
    using outside = tempFolder("overseer-outside-");
    await using fleet = await standInFleet({
      files: { ".gitignore": IGNORE, "README.md": "# test\n" },
      config: MANY,
    });
    fleet.repo.git("checkout", "--quiet", "-b", "with-links");
    symlinkSync(outside.path, join(fleet.root, "config"));
    symlinkSync("../../../nowhere", join(fleet.root, "secrets"));
    symlinkSync(join(outside.path, "env"), join(fleet.root, ".env"));
    fleet.repo.write("build", "a file where others have a folder\n");
    fleet.repo.git("add", "--force", "config", "secrets", ".env", "build");
    fleet.repo.git("commit", "--quiet", "--message", "links");
    fleet.repo.git("checkout", "--quiet", "main");
    fleet.repo.write("config/local.json", "{}\n");
    fleet.repo.write("secrets/a.key", "a\n");
    fleet.repo.write(".env", "KEY=value\n");
    fleet.repo.write("build/output", "built\n");
    fleet.repo.write(".worktreeinclude", "config/\nsecrets/\n.env\nbuild/\n");
    const { worktree } = await deadWorker(fleet, "ada", "--base", "with-links");
    expect(readdirSync(outside.path)).toEqual([]);
    expect(readlinkSync(join(worktree, "secrets"))).toBe("../../../nowhere");
    expect(existsSync(join(fleet.root, "nowhere"))).toBe(false);
    expect(gitAt(worktree, ["status", "--porcelain"])).toBe("");
  });
});

describe("worktrees.setup", () => {
  test("runs in the worktree with the caller's environment, less what is the caller's own, and leaves a log", async () => {
    const setup = 'echo "in $PWD"; echo trouble >&2; env > .setup-env; printf "no line feed"';
    await using fleet = await standInFleet({ config: `worktrees: { setup: ${JSON.stringify(setup)} }\n` });
    fleet.repo.write(".git/info/exclude", ".setup-env\n");
    const env = {
      MINE: "a value of the caller's",
      CLAUDECODE: "1",
      TMUX: "/tmp/x,1,0",
      GIT_AUTHOR_DATE: "now",
    };
    const answer = await fleet.overseer(["sling", "Do it well", "--name", "ada", "--capability", "builder"], {
      env,
    });
    expect(answer.exitCode).toBe(0);
    const seen = readFileSync(join(fleet.worktree("ada"), ".setup-env"), "utf8").split("\n");
    expect(seen).toContain("MINE=a value of the caller's");
    expect(seen).toContain(`PWD=${fleet.worktree("ada")}`);
    expect(seen.filter((line) => /^(?:CLAUDECODE|TMUX|GIT_|OVERSEER_TOKEN)/.test(line))).toEqual([]);
    const logs = join(fleet.root, ".overseer/logs/ada");
    const [time = ""] = readdirSync(logs);
    const log = readFileSync(join(logs, time, "setup.log"), "utf8");
    expect(log.split("\n")).toContain(`in ${fleet.worktree("ada")}`);
    expect(log).toContain("trouble\n");
    expect(log).toContain("no line feed");
  });

  function expectNothingLeft(fleet: Fleet, name: string, refs: string[]) {
    expect(isLeft(fleet, name)).toEqual(NOTHING);
    expect(refsOf(fleet)).toEqual(refs);
    expect(gitAt(fleet.root, ["worktree", "list", "--porcelain"])).not.toContain(name);
    expect(stateOf(fleet, name)).toBe("failed");
    const agent = join(fleet.root, ".overseer/agents", name);
    expect(existsSync(agent) ? readdirSync(agent) : []).toEqual([]);
    expect((rowsOf(fleet).leases as object[]).length).toBe(0);
  }

  test("failing, it shows its last lines, and leaves nothing but its log", async () => {
    const setup = "i=1; while [ $i -le 20 ]; do echo line $i; i=$((i+1)); done; echo made > by-setup; exit 3";
    await using fleet = await standInFleet({ config: `worktrees: { setup: ${JSON.stringify(setup)} }\n` });
    const refs = refsOf(fleet);
    const answer = await fleet.overseer(["sling", "Do it well", "--name", "ada", "--capability", "builder"]);
    expect(answer.exitCode).toBe(1);
    expect(answer.stderr).toContain("worktrees.setup ended with 3");
    expect(answer.stderr).toContain("line 20");
    expect(answer.stderr).not.toContain("line 2\n");
    const [log = ""] = /\.overseer\/logs\/ada\/\S+\/setup\.log/.exec(answer.stderr) ?? [];
    expect(readFileSync(join(fleet.root, log), "utf8")).toContain("line 1\n");
    expectNothingLeft(fleet, "ada", refs);
    expect(rescueRefs(fleet)).toEqual([]);
    expect((rowsOf(fleet).tasks as { status: string }[]).map(({ status }) => status)).toEqual(["cancelled"]);
  });

  test("taking too long, it is ended with all that it has started", async () => {
    using outer = tempFolder("overseer-setup-");
    const pids = join(outer.path, "pids");
    const inner = `echo $$ >> ${pids}; trap '' TERM; sleep 1000 & echo $! >> ${pids}; wait; sleep 1000`;
    const setup = `sh -c "${inner.replaceAll("$", "\\$")}" & echo $$ >> ${pids}; wait`;
    const config = `worktrees: { setup: ${JSON.stringify(setup)}, setupTimeout: 1s }\n`;
    await using fleet = await standInFleet({ config });
    const refs = refsOf(fleet);
    const words = ["sling", "Do it well", "--name", "ada", "--capability", "builder"];
    const answers: Answer[] = [];
    const asked = fleet.overseer(words).then((answer) => answers.push(answer));
    const started = () => (existsSync(pids) ? readFileSync(pids, "utf8").trim().split("\n").map(Number) : []);
    const alive: number[] = [];
    try {
      await until("sling has given up", () => answers[0], { timeoutMs: 30_000 });
      for (const pid of started()) if (await isAlive(pid)) alive.push(pid);
    } finally {
      for (const pid of started()) if (await isAlive(pid)) process.kill(pid, "SIGKILL");
      await asked;
    }
    expect(answers[0]?.exitCode).toBe(1);
    expect(answers[0]?.stderr).toContain("worktrees.setup took longer than 1s");
    expect(answers[0]?.stderr).toContain("worktrees.setupTimeout");
    expect(started()).toHaveLength(3);
    expect(alive).toEqual([]);
    expectNothingLeft(fleet, "ada", refs);
  });
});

describe("file scope", () => {
  const tried = (fleet: Fleet, name: string, files: string, ...args: string[]) =>
    fleet.overseer([
      "sling",
      "Try it now",
      "--name",
      name,
      "--capability",
      "builder",
      "--files",
      files,
      ...args,
      "--json",
    ]);

  async function expectTaken(fleet: Fleet, files: string, holder: string, words: string): Promise<void> {
    const before = wholeState(fleet, holder);
    const answer = await tried(fleet, "bob", files);
    expect(answer.exitCode).toBe(1);
    expect(answer.error()).toMatchObject({ code: "scope_taken" });
    expect(answer.error().message).toContain(holder);
    expect(answer.error().hint).toContain(words);
    const after = wholeState(fleet, holder);
    expect({ ...after, rows: null }).toEqual({ ...before, rows: null });
    expect(stateOf(fleet, "bob")).toBeUndefined();
  }

  test("is held by the living, by the stopped with work, and by the dead, until the worktree is cleaned", async () => {
    await using fleet = await standInFleet({ config: MANY });
    await fleet.sling("ada", "Work on part a", "--files", "src/a");
    await expectTaken(fleet, "src/a/x", "ada", "overseer wait ada");
    expect((await fleet.overseer(["stop", "ada"])).exitCode).toBe(0);
    commitIn(fleet.worktree("ada"), "src/a/x", "work\n");
    for (const files of ["src/a/x", "src/a", "src", "src/**/*.ts", "src/a/*.ts,docs"]) {
      await expectTaken(fleet, files, "ada", "overseer worktree clean ada");
    }
    expect((await tried(fleet, "cyd", "src/ab,src/b")).exitCode).toBe(0);
    expect((await fleet.overseer(["worktree", "clean", "ada", "--force"])).exitCode).toBe(0);
    expect((await tried(fleet, "bob", "src/a/x")).exitCode).toBe(0);
  });

  test("is held by the completed until their branch has landed and is cleaned, or is given up", async () => {
    await using fleet = await standInFleet({ config: MANY });
    const work = "mkdir -p src/a && echo x > src/a/x && git add . && git commit -qm x";
    await completedWorker(fleet, "ada", work, "--files", "src/a");
    await expectTaken(fleet, "src/a/x", "ada", "overseer worktree clean ada");
    await completedWorker(fleet, "none", "true", "--files", "src/none");
    expect((await tried(fleet, "eve", "src/none")).exitCode).toBe(0);
    const { branch } = await fleet.session("ada");
    fleet.repo.git("merge", "--quiet", "--no-edit", branch ?? "");
    expect((await fleet.overseer(["worktree", "clean", "ada"])).exitCode).toBe(0);
    const freed = await tried(fleet, "bob", "src/a/x");
    expect(freed.stdout).toContain('"ok":true');
  });

  test("is not held against those above and below", async () => {
    await using fleet = await standInFleet({ config: `${MANY}` });
    await fleet.sling("lead", "Lead all of it", "--capability", "lead", "--files", "src");
    expect((await tried(fleet, "kid", "src/a", "--parent", "lead")).exitCode).toBe(0);
    expect((await tried(fleet, "brat", "src/a/x", "--parent", "lead")).error().message).toContain("kid");
    expect((await tried(fleet, "sib", "src/b", "--parent", "lead")).exitCode).toBe(0);
    expect((await tried(fleet, "out", "docs", "--parent", "lead")).error().code).toBe("scope_outside");
    expect((await tried(fleet, "far", "src/c")).error().code).toBe("scope_taken");
  });
});

describe("slinging a name again", () => {
  test("removes what is proven to have landed, by itself", async () => {
    await using fleet = await standInFleet({ config: MANY });
    const first = await completedWorker(fleet, "ada", "echo x > x && git add . && git commit -qm x");
    fleet.repo.git("merge", "--quiet", "--squash", first.branch);
    fleet.repo.git("commit", "--quiet", "--message", "squashed");
    const second = await deadWorker(fleet, "ada");
    expect(second.branch).not.toBe(first.branch);
    expect(gitAt(second.worktree, ["branch", "--show-current"])).toBe(second.branch);
    expect(refsOf(fleet).filter((ref) => ref.includes(first.branch))).toEqual([]);
    expect(rescueRefs(fleet)).toEqual([]);
    expect(existsSync(join(second.worktree, "x"))).toBe(true);
  });

  test("the same task under the same name gets the same branch anew", async () => {
    await using fleet = await standInFleet({ config: MANY });
    const first = await deadWorker(fleet, "ada");
    const words = ["sling", first.taskId, "--name", "ada", "--capability", "builder", "--json"];
    await fleet.overseer(["doctor", "--fix"]);
    const again = (await fleet.overseer(words)).data<{ agent: { branch: string } }>();
    expect(again.agent.branch).toBe(first.branch);
  });

  test("is refused where something would be lost, and changes nothing", async () => {
    await using fleet = await standInFleet({ config: MANY });
    const first = await deadWorker(fleet, "ada");
    await fleet.overseer(["doctor", "--fix"]);
    const again = async (): Promise<Answer> => {
      const before = wholeState(fleet, "ada");
      const answer = await fleet.overseer([
        "sling",
        "Something else",
        "--name",
        "ada",
        "--capability",
        "builder",
      ]);
      expect(wholeState(fleet, "ada")).toEqual(before);
      expect(answer.exitCode).toBe(1);
      expect(answer.stderr).toContain("overseer worktree clean ada");
      return answer;
    };
    writeFileSync(join(first.worktree, "new.txt"), "untracked\n");
    expect((await again()).stderr).toContain("new.txt");
    commitIn(first.worktree, "new.txt", "committed\n");
    expect((await again()).stderr).toContain("commits that are not in the canonical branch");
    rmSync(first.worktree, { recursive: true });
    await again();
    fleet.repo.git("worktree", "prune");
    await again();
  });
});

interface Found {
  check: string;
  verdict: string;
  detail: string;
  hint?: string;
}

async function doctor(fleet: Fleet, check: string, ...args: string[]): Promise<Found> {
  const answer = await fleet.overseer(["doctor", ...args, "--json"]);
  const { findings } = JSON.parse(answer.stdout.split("\n")[0] ?? "").data;
  const found = findings.find((finding: Found) => finding.check === check);
  if (found === undefined) throw new Error(`doctor says nothing of ${check}: ${answer.stdout}`);
  return found;
}

describe("doctor and what workers leave", () => {
  test("a worktree nobody knows: removed if nothing can be lost, else kept and named", async () => {
    await using fleet = await standInFleet();
    const add = (name: string) => {
      fleet.repo.git("worktree", "add", "--quiet", "--detach", fleet.worktree(name));
      return fleet.worktree(name);
    };
    add("clean");
    commitIn(add("committed"), "x", "work\n");
    writeFileSync(join(add("changed"), "README.md"), "changed\n");
    mkdirSync(fleet.worktree("folder"));
    writeFileSync(join(fleet.worktree("folder"), "notes"), "a person's\n");
    const names = ["clean", "committed", "changed", "folder"];
    const before = wholeState(fleet, ...names);
    const seen = await doctor(fleet, "worktrees");
    expect(seen.verdict).toBe("warning");
    for (const name of names) expect(seen.detail).toContain(name);
    expect(wholeState(fleet, ...names)).toEqual(before);
    const fixed = await doctor(fleet, "worktrees", "--fix");
    expect(fixed.verdict).toBe("warning");
    expect(fixed.detail).toContain("removed nobody's and empty ones: clean;");
    expect(existsSync(fleet.worktree("clean"))).toBe(false);
    const { worktrees } = wholeState(fleet, "committed", "changed", "folder");
    const { clean: _, ...rest } = before.worktrees;
    expect(worktrees).toEqual(rest);
    for (const name of names.slice(1)) expect(fixed.detail).toContain(name);
    expect(fixed.hint).toContain("overseer worktree clean");
    expect((await doctor(fleet, "worktrees", "--fix")).detail).not.toContain("clean,");
  });

  test("a pane of a worker that is gone is closed; a live worker's, and a person's window, are not", async () => {
    await using fleet = await standInFleet();
    const ada = await fleet.sling("ada", "Go on for a while");
    fleet.tmux("new-session", "-d", "-s", "overseer-ghost", "--", "sh", "-c", "cat", "launch-ses-gone.json");
    fleet.tmux("new-session", "-d", "-s", "mine", "cat");
    expect(paneNames(fleet).toSorted()).toEqual(["mine", "overseer-ada", "overseer-ghost"]);
    const seen = await doctor(fleet, "panes");
    expect(seen).toMatchObject({ verdict: "warning", hint: "overseer doctor --fix" });
    expect(seen.detail).toContain("overseer-ghost");
    expect(paneNames(fleet)).toContain("overseer-ghost");
    expect((await doctor(fleet, "panes", "--fix")).verdict).toBe("fixed");
    expect(paneNames(fleet).toSorted()).toEqual(["mine", "overseer-ada"]);
    expect(await isAlive(ada.pid)).toBe(true);
    expect((await doctor(fleet, "panes")).verdict).toBe("ok");
  });

  test("a launch file that was left, with a token in it, is removed", async () => {
    await using fleet = await standInFleet();
    await deadWorker(fleet, "ada");
    const file = fleet.repo.write(".overseer/agents/ada/launch-ses-killed.json", "{}");
    expect((await doctor(fleet, "panes")).detail).toContain("ada/launch-ses-killed.json");
    expect(existsSync(file)).toBe(true);
    expect((await doctor(fleet, "panes", "--fix")).verdict).toBe("fixed");
    expect(existsSync(file)).toBe(false);
    expect(existsSync(join(fleet.root, ".overseer/agents/ada/settings.json"))).toBe(true);
  });

  test("a live worker without its worktree is named, with what helps", async () => {
    await using fleet = await standInFleet();
    const ada = await fleet.sling("ada", "Go on for a while");
    renameSync(ada.worktree, `${fleet.root}-away`);
    try {
      const seen = await doctor(fleet, "worktrees");
      expect(seen.verdict).toBe("warning");
      expect(seen.detail).toContain("ada");
      expect(seen.hint).toContain("overseer");
      expect(stateOf(fleet, "ada")).toBe("working");
    } finally {
      rmSync(`${fleet.root}-away`, { recursive: true });
    }
  });

  test("rescue refs are listed, git's records left alone, and the dead recorded", async () => {
    await using fleet = await standInFleet();
    expect((await doctor(fleet, "rescues")).detail).toBe("none");
    await deadWorker(fleet, "ada");
    writeFileSync(join(fleet.worktree("ada"), "x"), "work\n");
    expect((await fleet.overseer(["worktree", "clean", "ada", "--force"])).exitCode).toBe(0);
    const [ref = ""] = rescueRefs(fleet);
    expect((await doctor(fleet, "rescues")).detail).toContain(ref.split(" ")[0] ?? "no ref");
    await deadWorker(fleet, "bob");
    rmSync(fleet.worktree("bob"), { recursive: true });
    const records = () => readdirSync(join(fleet.root, ".git/worktrees"));
    await doctor(fleet, "worktrees");
    expect(records()).toEqual(["bob"]);
    expect(stateOf(fleet, "bob")).toBe("working");
    await doctor(fleet, "worktrees", "--fix");
    // It may be on a disk that is away: only whoever removes a worker's worktree removes its record.
    expect(records()).toEqual(["bob"]);
    expect(stateOf(fleet, "bob")).toBe("zombie");
    expect(rescueRefs(fleet)).toEqual([ref]);
  });

  test("a worktree of somebody else's, elsewhere, is not theirs to touch", async () => {
    using outside = tempFolder("overseer-elsewhere-");
    await using fleet = await standInFleet();
    const path = join(outside.path, "theirs");
    fleet.repo.git("worktree", "add", "--quiet", "-b", "theirs", path);
    await doctor(fleet, "worktrees", "--fix");
    await fleet.overseer(["worktree", "clean", "--all", "--force"]);
    expect(existsSync(join(path, "README.md"))).toBe(true);
    expect(fleet.repo.git("worktree", "list")).toContain(path);
  });
});

describe("uninstall and workers", () => {
  test("refuses with live workers or worktrees, then leaves nothing running and nothing but rescue refs", async () => {
    using tools = tempFolder();
    const calls = join(tools.path, "calls");
    const tmux = tools.write(
      "tmux",
      `#!/bin/sh\necho "$*" >> ${calls}\nexec ${Bun.which("tmux")} "$@"\n`,
      0o755,
    );
    await using fleet = await standInFleet({ config: `tmux: { bin: ${tmux} }\n` });
    // As before init: the person's own things.
    const ada = await fleet.sling("ada", "Go on for a while");
    const bob = await deadWorker(fleet, "bob");
    writeFileSync(join(bob.worktree, "x"), "work\n");
    const before = wholeState(fleet, "ada", "bob");
    const living = await fleet.overseer(["uninstall"]);
    expect(living.exitCode).toBe(1);
    for (const words of ["ada", "overseer stop --all", "overseer worktree clean --all"]) {
      expect(living.stderr).toContain(words);
    }
    expect(wholeState(fleet, "ada", "bob")).toEqual(before);
    expect((await fleet.overseer(["stop", "--all"])).exitCode).toBe(0);
    expect(await isAlive(ada.pid)).toBe(false);
    const left = await fleet.overseer(["uninstall"]);
    expect(left.exitCode).toBe(1);
    expect(left.stderr).toContain("bob");
    expect(existsSync(join(bob.worktree, "x"))).toBe(true);
    expect((await fleet.overseer(["worktree", "clean", "--all", "--force"])).exitCode).toBe(0);

    const gone = await fleet.overseer(["uninstall"]);

    expect(gone.stderr).toBe("");
    expect(gone.exitCode).toBe(0);
    expect(readFileSync(calls, "utf8")).toMatch(/ kill-server\n$/);
    const socket = `/tmp/tmux-${process.getuid?.() ?? 0}/${fleet.socket}`;
    expect(existsSync(socket)).toBe(false);
    // The configuration is the person's own: this fleet has written it.
    expect(readdirSync(fleet.root).toSorted()).toEqual([".git", ".overseer", "README.md"]);
    expect(readdirSync(join(fleet.root, ".overseer"))).toEqual(["config.yaml"]);
    expect(existsSync(join(fleet.root, ".git/worktrees"))).toBe(false);
    const refs = refsOf(fleet).map((line) => line.split(" ")[0] ?? "");
    expect(refs.map((ref) => ref.replace(/\/[^/]*$/, ""))).toEqual([
      "refs/heads",
      "refs/overseer/rescue/bob",
    ]);
    expect(gitAt(fleet.root, ["show", `${refs[1]}:x`])).toBe("work");
    expect(gitAt(fleet.root, ["config", "--list", "--local"])).not.toContain("overseer");
  });

  test("a branch without a worktree keeps its commits", async () => {
    await using fleet = await standInFleet();
    const ada = await deadWorker(fleet, "ada");
    const tip = commitIn(ada.worktree, "x", "work\n");
    await fleet.overseer(["doctor", "--fix"]);
    rmSync(ada.worktree, { recursive: true });
    await fleet.overseer(["uninstall"]);
    const kept = refsOf(fleet).some((ref) => ref.endsWith(tip));
    expect(kept).toBe(true);
  });
});

describe("diff", () => {
  interface Shown {
    base: string;
    files: string[];
    diff: string;
  }

  test("shows what a worker has changed, committed or not, and changes nothing", async () => {
    const files = { "README.md": "# test\n", "edit.txt": LINES, "both.txt": LINES };
    await using fleet = await standInFleet({ files, config: MANY });
    const show = async (...args: string[]) =>
      (await fleet.overseer(["diff", "ada", ...args, "--json"])).data<Shown>();
    const { worktree } = await deadWorker(fleet, "ada");
    expect((await fleet.overseer(["diff", "ada"])).stdout).toBe("ada has changed nothing yet.\n");
    commitIn(worktree, "committed.txt", "committed\n");
    writeFileSync(join(worktree, "edit.txt"), LINES.replace("two", "zwei"));
    mkdirSync(join(worktree, "new"));
    writeFileSync(join(worktree, "new/größe\n2.txt"), "untracked\n");
    writeFileSync(join(worktree, "staged.txt"), "staged\n");
    gitAt(worktree, ["add", "staged.txt"]);
    unlinkSync(join(worktree, "README.md"));
    const own = ["README.md", "committed.txt", "edit.txt", "new/größe\n2.txt", "staged.txt"];
    const before = wholeState(fleet, "ada");
    const shown = await show();
    expect(shown.files.toSorted()).toEqual(own);
    for (const line of ["+committed", "-two\n+zwei", "+untracked", "+staged", "-# test"]) {
      expect(`${shown.diff}\n`).toContain(`\n${line}\n`);
    }
    const stat = await fleet.overseer(["diff", "ada", "--stat"]);
    expect(stat.stdout).toContain("5 files changed");
    expect(stat.stdout).not.toContain("+zwei");
    expect((await fleet.overseer(["diff", "ada"])).stdout).toContain("+zwei");
    expect(wholeState(fleet, "ada")).toEqual(before);
    expect(
      readdirSync(join(fleet.root, ".overseer/agents/ada")).filter((file) => /index/.test(file)),
    ).toEqual([]);

    // What comes from others with a merge of main is not the worker's.
    commitIn(fleet.root, "both.txt", LINES.replace("five", "fünf"));
    commitIn(fleet.root, "theirs.txt", "somebody else's\n");
    gitAt(worktree, ["add", "--all"]);
    gitAt(worktree, ["commit", "--quiet", "--message", "all of it"]);
    gitAt(worktree, ["merge", "--quiet", "--no-edit", "main"]);
    const merged = await show();
    expect(merged.files.toSorted()).toEqual(own);
    expect(merged.base).toBe(fleet.repo.git("rev-parse", "main"));

    // The person's own way to look at changes is not in the way.
    fleet.repo.git("config", "color.ui", "always");
    fleet.repo.git("config", "diff.external", "/bin/false");
    fleet.repo.git("config", "diff.noprefix", "true");
    const plain = await show();
    expect(plain.diff).not.toMatch(UNPRINTABLE);
    expect(plain.diff).toContain("\n+zwei\n");

    rmSync(worktree, { recursive: true });
    const branchOnly = await show();
    expect(branchOnly.files.toSorted()).toEqual(own);
    expect((await fleet.overseer(["worktree", "clean", "ada", "--force"])).exitCode).toBe(0);
    const gone = await fleet.overseer(["diff", "ada"]);
    expect(gone.exitCode).toBe(1);
    expect(gone.stderr).toContain("neither a worktree nor a branch");
  });
});
