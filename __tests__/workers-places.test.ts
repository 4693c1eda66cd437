import { describe, expect, test } from "bun:test";
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { OVERSEER, snapshot } from "./support/cli.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import type { Model } from "./support/model-server.ts";
import { gitIsolation, type TempRepo, tempFolder, tempRepo } from "./support/temp.ts";

const PATIENT = "agents:\n  bootTimeout: 2m\n";
/** Words that only the overlay has. */
const OVERLAY = "This file was made by overseer for the worker ada alone";

function gitAt(cwd: string, ...args: string[]): string {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  const env = { ...Object.fromEntries(inherited), ...gitIsolation };
  const words = ["git", "-c", "protocol.file.allow=always", ...args];
  const { exitCode, stdout, stderr } = Bun.spawnSync(words, { cwd, env });
  if (exitCode !== 0) throw new Error(`git ${args.join(" ")} failed in ${cwd}: ${stderr.toString()}`);
  return stdout.toString().trim();
}

/** A repository that is there already, or is made there. */
function repoAt(path: string): TempRepo {
  const git = (...args: string[]) => gitAt(path, ...args);
  if (!existsSync(path)) {
    mkdirSync(path, { recursive: true });
    git("init", "--quiet", "--initial-branch=main");
    writeFileSync(join(path, "README.md"), "# test\n");
    git("add", "--all");
    git("-c", "user.name=T", "-c", "user.email=t@e", "commit", "--quiet", "--message", "first");
  }
  git("config", "user.name", "Test");
  git("config", "user.email", "test@example.invalid");
  const remove = () => rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  return {
    path,
    git,
    remove,
    [Symbol.dispose]: remove,
    write(name, content, mode = 0o644) {
      const file = join(path, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content, { mode });
      return file;
    },
  };
}

function panesOf(fleet: Fleet): string[] {
  const lines = fleet.tmux("list-panes", "-a", "-F", "#{session_name} #{pane_pid}").split("\n");
  return lines.filter((line) => line !== "").toSorted();
}

function commitsMade(model: Model): void {
  const command = "echo made > made.txt && git add -A && git commit -qm made";
  model.whenPrompt("You are ada").expects(OVERLAY).uses("Bash", { command }).says("All is made.").mayGoOn();
}

/** Slings a worker that commits a file, looks at it in every way, stops it and cleans up: nothing is left. */
async function expectWholeLife(fleet: Fleet, cwd = fleet.root, trees = `${fleet.root}/.overseer/worktrees`) {
  const call = async (...words: string[]) => {
    const { exitCode, stdout, stderr } = await fleet.overseer(words, { cwd });
    expect({ words, exitCode, stderr }).toEqual({ words, exitCode: 0, stderr: "" });
    return stdout;
  };
  const listed = () => gitAt(fleet.root, "worktree", "list", "--porcelain", "-z");
  const before = { worktrees: listed(), config: readFileSync(configOf(fleet), "utf8") };
  await call("sling", "Make a thing", "--name", "ada", "--capability", "builder");
  const session = await fleet.untilState("ada", "idle");
  fleet.model.verify();
  expect(session.worktree).toBe(`${trees}/ada`);
  expect(panesOf(fleet)).toEqual([`overseer-ada ${session.pid}`]);
  expect(gitAt(`${trees}/ada`, "show", "--format=", "--name-only", "HEAD")).toBe("made.txt");
  expect(gitAt(`${trees}/ada`, "status", "--porcelain")).toBe("");
  expect(await call("peek", "ada")).toContain("All is made.");
  expect(await call("diff", "ada")).toContain("+++ b/made.txt");
  expect(await call("status")).toContain("ada");
  expect(await call("inspect", "ada")).toContain("ada");
  expect(await call("worktree", "list")).toContain("ada");
  await call("stop", "ada");
  expect(panesOf(fleet)).toEqual([]);
  writeFileSync(`${trees}/ada/draft.txt`, "not committed\n");
  const kept = await fleet.overseer(["worktree", "clean", "ada", "--json"], { cwd });
  expect({ exit: kept.exitCode, code: kept.error().code }).toEqual({ exit: 1, code: "worktree_dirty" });
  const cleaned = JSON.parse(await call("worktree", "clean", "ada", "--force", "--json"));
  const { rescueRef, bringBack } = cleaned.data.removed[0];
  expect(gitAt(fleet.root, "show", `${rescueRef}:made.txt`)).toBe("made");
  expect(gitAt(fleet.root, "show", `${rescueRef}:draft.txt`)).toBe("not committed");
  expect({ worktrees: listed(), config: readFileSync(configOf(fleet), "utf8") }).toEqual(before);
  expect(readdirSync(trees).filter((name) => name === "ada")).toEqual([]);
  expect(gitAt(fleet.root, "branch", "--list", "overseer/*")).toBe("");
  expect(existsSync(`${fleet.root}/.overseer/logs/errors.log`)).toBe(false);
  expect(await call("doctor")).not.toContain("half-made");
  return String(bringBack);
}

function configOf(fleet: Fleet): string {
  return gitAt(fleet.root, "rev-parse", "--path-format=absolute", "--git-path", "config");
}

/** Where Claude Code looks for the answer of a worktree whose git folder is not in the main checkout. */
function trust(fleet: Fleet, folder: string): void {
  const file = join(fleet.home.path, ".claude.json");
  const known = JSON.parse(readFileSync(file, "utf8"));
  known.projects[folder] = { hasTrustDialogAccepted: true };
  writeFileSync(file, JSON.stringify(known));
}

describe("a worker lives and goes in a repository", () => {
  const names = [
    `with spaces, 'single' and "double"`,
    "$(touch x) `touch x` $HOME",
    "#(touch x) #{pane_id} %n",
    "semi;colon;",
    "naïve-日本-🐙",
    "-repo",
    "*?[a] &amp {{name}}",
    "new\nline",
  ];
  for (const name of names) {
    test(`at ${JSON.stringify(name)}, and what was in its way is run by nobody`, async () => {
      using around = tempFolder();
      const root = join(around.path, name);
      await using fleet = await startFleet({ repo: repoAt(root), config: PATIENT, tell: commitsMade });
      const bringBack = await expectWholeLife(fleet);
      const isTouched = (path: string) => /(^|\/)x$/.test(path);
      expect(Object.keys(snapshot(around.path)).filter(isTouched)).toEqual([]);
      expect(readdirSync(fleet.home.path)).not.toContain("x");
      expect(readdirSync("/")).not.toContain("x");
      // The command that is printed to get the work back can be typed as it is.
      const typed = Bun.spawnSync(["sh", "-c", bringBack], { cwd: "/", env: { ...fleet.env } });
      expect({ exit: typed.exitCode, bringBack }).toEqual({ exit: 0, bringBack });
      const [rescued = ""] = readdirSync(around.path).filter((found) =>
        found.startsWith(`${name}-rescued-ada-`),
      );
      expect(readFileSync(join(around.path, rescued, "made.txt"), "utf8")).toBe("made\n");
      expect(Object.keys(snapshot(around.path)).filter(isTouched)).toEqual([]);
    });
  }

  test("that is a submodule of another, which stays as it was", async () => {
    using part = tempRepo();
    using whole = tempRepo();
    whole.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", part.path, "part");
    whole.git("commit", "--quiet", "--message", "part");
    const outer = () => snapshot(whole.path, { except: (path) => /^(part|\.git\/modules)(\/|$)/.test(path) });
    const repo = { ...repoAt(`${whole.path}/part`), remove() {} };
    await using fleet = await startFleet({ repo, config: PATIENT, tell: commitsMade });
    trust(fleet, `${whole.path}/.git/modules/part`);
    const before = outer();
    await expectWholeLife(fleet);
    expect(outer()).toEqual(before);
  });

  test("called from a subfolder, in which nothing appears", async () => {
    await using fleet = await startFleet({
      config: PATIENT,
      tell: commitsMade,
      files: { "src/deep/a.ts": "a\n" },
    });
    await expectWholeLife(fleet, `${fleet.root}/src/deep`);
    expect(Object.keys(snapshot(`${fleet.root}/src`))).toEqual(["deep", "deep/a.ts"]);
  });

  test("called from a worktree of the user's own, which stays as it was", async () => {
    using around = tempFolder();
    await using fleet = await startFleet({ config: PATIENT, tell: commitsMade });
    const tree = join(around.path, "tree");
    fleet.repo.git("worktree", "add", "--quiet", "-b", "mine", tree);
    const before = snapshot(tree);
    await expectWholeLife(fleet, tree);
    expect(snapshot(tree)).toEqual(before);
  });

  test("whose worktrees are to be elsewhere", async () => {
    using around = tempFolder();
    await using fleet = await startFleet({ tell: commitsMade });
    around.write("trees of mine/other/notes.txt", "mine\n");
    const trees = join(around.path, "trees of mine");
    fleet.repo.write(".overseer/config.yaml", `${PATIENT}worktrees:\n  baseDir: ${trees}\n`);
    await expectWholeLife(fleet, fleet.root, trees);
    expect(Object.keys(snapshot(around.path))).toEqual([
      "trees of mine",
      "trees of mine/other",
      "trees of mine/other/notes.txt",
    ]);
  });
});

/** The environment of a process, as the kernel knows it. */
function environmentOf(pid: number | null): Record<string, string> {
  const pairs = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  return Object.fromEntries(
    pairs
      .filter((pair) => pair !== "")
      .map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
  );
}

/** A tmux server of the user's: the default one of a TMUX_TMPDIR, and one with a name. */
function userTmux(folder: string) {
  mkdirSync(folder, { recursive: true });
  const env = {
    PATH: process.env.PATH ?? "",
    TMUX_TMPDIR: folder,
    HOME: folder,
    TERM: "screen",
    LANG: "C.UTF-8",
  };
  const tmux = (socket: readonly string[], ...args: string[]) => {
    const { exitCode, stdout, stderr } = Bun.spawnSync(["tmux", "-u", ...socket, ...args], {
      cwd: folder,
      env,
    });
    if (exitCode !== 0) throw new Error(`tmux ${args.join(" ")}: ${stderr.toString()}`);
    return stdout.toString();
  };
  const sockets = [[], ["-L", "private"]] as const;
  for (const socket of sockets) tmux(socket, "-f", "/dev/null", "new-session", "-d", "-s", "mine", "cat");
  const look = (socket: readonly string[]) => [
    tmux(
      socket,
      "list-panes",
      "-a",
      "-F",
      "#{session_name} #{window_id} #{pane_id} #{pane_pid} #{pane_dead} #{pane_current_command}",
    ),
    tmux(socket, "list-sessions", "-F", "#{session_name} #{session_created} #{session_attached}"),
    tmux(socket, "show-options", "-g"),
    tmux(socket, "show-options", "-s"),
    tmux(socket, "show-options", "-gw"),
    tmux(socket, "show-environment", "-g"),
    tmux(socket, "show-environment", "-t", "=mine"),
    tmux(socket, "list-keys"),
    tmux(socket, "show-hooks", "-g"),
    tmux(socket, "list-buffers"),
  ];
  return {
    /** What a shell in one of its panes has. */
    inside: {
      TMUX_TMPDIR: folder,
      TMUX: `${folder}/tmux-${process.getuid?.() ?? 0}/default,${tmux([], "display-message", "-p", "-t", "=mine:", "#{pid}").trim()},0`,
      TMUX_PANE: "%0",
    },
    state: () => sockets.map(look),
    [Symbol.dispose]() {
      for (const socket of sockets) tmux(socket, "kill-server");
    },
  };
}

describe("the user's surroundings", () => {
  test("their tmux servers are the same before and after, and their configuration and shell do not matter", async () => {
    using around = tempFolder();
    using theirs = userTmux(join(around.path, "tmux"));
    const touched = join(around.path, "touched");
    const conf = [
      "set -g base-index 1",
      "setw -g pane-base-index 1",
      "set -g prefix C-a",
      "set -g default-shell /bin/false",
      'set -g default-command "exit 1"',
      "set -g remain-on-exit on",
      "set -g exit-empty off",
      "set -g destroy-unattached on",
      `run-shell "touch ${touched}"`,
      `set-hook -g session-created 'run-shell "touch ${touched}"'`,
    ].join("\n");
    await using fleet = await startFleet({ config: PATIENT, tell: commitsMade });
    writeFileSync(join(fleet.home.path, ".tmux.conf"), conf);
    mkdirSync(join(fleet.home.path, ".config/tmux"), { recursive: true });
    writeFileSync(join(fleet.home.path, ".config/tmux/tmux.conf"), conf);
    for (const shell of ["/bin/false", "/opt/no/such/fish"]) {
      const before = theirs.state();
      Object.assign(fleet.env, theirs.inside, { SHELL: shell });
      await expectWholeLife(fleet);
      expect(theirs.state()).toEqual(before);
      expect(existsSync(touched)).toBe(false);
      gitAt(
        fleet.root,
        "commit",
        "--quiet",
        "--allow-empty",
        "--message",
        "so that the next rescue is another",
      );
    }
  });

  test("another TMUX and TMUX_TMPDIR at the second sling: both workers are on one server, seen from anywhere", async () => {
    using around = tempFolder();
    using first = userTmux(join(around.path, "one"));
    using second = userTmux(join(around.path, "two"));
    await using fleet = await startFleet({ config: PATIENT });
    const sling = async (name: string, env: Record<string, string>) => {
      const words = ["sling", `Work of ${name}`, "--name", name, "--capability", "builder"];
      const { exitCode, stderr } = await fleet.overseer(words, { env });
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      return await fleet.untilState(name, "idle");
    };
    const ada = await sling("ada", first.inside);
    const bea = await sling("bea", second.inside);
    expect(panesOf(fleet)).toEqual([`overseer-ada ${ada.pid}`, `overseer-bea ${bea.pid}`]);
    for (const env of [{}, first.inside, second.inside, { TMUX_TMPDIR: "/nonexistent", TMUX: "x" }]) {
      const status = await fleet.overseer(["status", "--json"], { env });
      const { agents } = status.data<{ agents: { name: string; state: string; isLost?: boolean }[] }>();
      expect(
        agents
          .filter(({ state }) => state === "idle")
          .map(({ name }) => name)
          .toSorted(),
      ).toEqual(["ada", "bea"]);
      for (const name of ["ada", "bea"]) {
        expect((await fleet.overseer(["peek", name], { env })).stdout).toContain(`Work of ${name}`);
      }
      // What is printed for a person to type leads there from their shell, whatever that has.
      const typed = (await fleet.overseer(["attach", "ada"], { env })).stderr;
      const [, command = ""] = /in a terminal: (.*?);/.exec(typed) ?? [];
      const look = command.replace("attach-session", "has-session");
      const shell = { PATH: process.env.PATH ?? "", ...env };
      expect([command, Bun.spawnSync(["sh", "-c", look], { env: shell }).exitCode]).toEqual([command, 0]);
    }
    for (const { pid } of [ada, bea]) expect(environmentOf(pid).TMUX_TMPDIR).toBeUndefined();
  });

  test("a key that was changed between two slings: each worker has its own, and tmux has neither", async () => {
    await using fleet = await startFleet({ config: PATIENT });
    const settings = join(fleet.home.path, ".claude.json");
    const known = JSON.parse(readFileSync(settings, "utf8"));
    const keys = { ada: "sk-the-old-one", bea: "sk-the-new-one" };
    known.customApiKeyResponses.approved.push(...Object.values(keys));
    writeFileSync(settings, JSON.stringify(known));
    const pids: number[] = [];
    for (const [name, key] of Object.entries(keys)) {
      const words = ["sling", "Do a thing", "--name", name, "--capability", "builder"];
      const slung = await fleet.overseer(words, { env: { ANTHROPIC_API_KEY: key, ONLY_OF: name } });
      expect({ exit: slung.exitCode, stderr: slung.stderr }).toEqual({ exit: 0, stderr: "" });
      pids.push((await fleet.untilState(name, "idle")).pid ?? 0);
    }
    const [ada = {}, bea = {}] = pids.map(environmentOf);
    expect([ada.ANTHROPIC_API_KEY, ada.ONLY_OF]).toEqual(["sk-the-old-one", "ada"]);
    expect([bea.ANTHROPIC_API_KEY, bea.ONLY_OF]).toEqual(["sk-the-new-one", "bea"]);
    expect(ada.OVERSEER_TOKEN).not.toBe(bea.OVERSEER_TOKEN);
    const server = Number(fleet.tmux("display-message", "-p", "-t", "=overseer-ada:", "#{pid}"));
    const secrets = /sk-the-|ONLY_OF|OVERSEER_TOKEN|ANTHROPIC/;
    expect(fleet.tmux("show-environment", "-g")).toContain("PATH=");
    expect(fleet.tmux("show-environment", "-g")).not.toMatch(secrets);
    for (const name of Object.keys(keys)) {
      expect(fleet.tmux("show-environment", "-t", `=overseer-${name}`)).not.toMatch(secrets);
      expect(
        readdirSync(`${fleet.root}/.overseer/agents/${name}`).filter((file) => /launch/.test(file)),
      ).toEqual([]);
    }
    expect(Object.entries(environmentOf(server)).join("\n")).not.toMatch(secrets);
    const tokens = [ada.OVERSEER_TOKEN ?? "none", bea.OVERSEER_TOKEN ?? "none"];
    for (const pid of [server, ...pids]) {
      const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      for (const secret of [...tokens, ...Object.values(keys)]) expect(argv).not.toContain(secret);
    }
    const files = JSON.stringify(
      snapshot(`${fleet.root}/.overseer`, { except: (path) => path.includes("worktrees/") }),
    );
    for (const secret of [...tokens, ...Object.values(keys)]) expect(files).not.toContain(secret);
  });

  test("an environment of 100 KB, values with lines and =, a changed PATH: the worker has it as it was", async () => {
    using bin = tempFolder();
    bin.write("said-by-me", "#!/bin/sh\necho the right one\n", 0o755);
    await using fleet = await startFleet({
      config: PATIENT,
      tell: (model) =>
        model
          .whenPrompt("You are ada")
          .uses("Bash", { command: "said-by-me; printenv LARGE | wc -c" })
          .expects(/the right one\s+100001/)
          .says("Done.")
          .mayGoOn(),
    });
    const given = {
      LARGE: "x".repeat(100_000),
      LINES_IN_IT: "first=1\nsecond='2'\n\n$(touch x) #{pane_id} ; \\",
      EMPTY: "",
      BEYOND_ASCII: "naïve 日本 🐙",
      PATH: `${bin.path}:${fleet.env.PATH}`,
    };
    const foreign = {
      CLAUDECODE: "1",
      CLAUDE_CODE_ENTRYPOINT: "cli",
      GIT_DIR: "/nonexistent",
      GIT_INDEX_FILE: "/nonexistent/index",
      TMUX: "/nonexistent,1,0",
      TMUX_PANE: "%7",
    };
    const words = ["sling", "Do a thing", "--name", "ada", "--capability", "builder"];
    const slung = await fleet.overseer(words, { env: { ...given, ...foreign } });
    expect({ exit: slung.exitCode, stderr: slung.stderr }).toEqual({ exit: 0, stderr: "" });
    const { pid } = await fleet.untilState("ada", "idle");
    fleet.model.verify();
    const { PATH, ...kept } = environmentOf(pid);
    const { PATH: givenPath, ...others } = given;
    expect(kept).toMatchObject(others);
    expect(PATH).toBe(`${dirname(OVERSEER)}:${givenPath}`);
    for (const name of ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "GIT_DIR", "GIT_INDEX_FILE"]) {
      expect(Object.keys(kept)).not.toContain(name);
    }
    expect([kept.TMUX, kept.TMUX_PANE]).not.toContain("%7");
    expect(kept.TMUX ?? "").not.toContain("/nonexistent");
  });
});

describe("a repository that has files of its own where the worker's instructions go", () => {
  const CLAUDE_MD = ".claude/CLAUDE.md";
  const IGNORE = ".claude/.gitignore";
  const SETTINGS = ".claude/settings.local.json";
  const LOCAL = "CLAUDE.local.md";
  const THEIRS: Record<string, string> = {
    [CLAUDE_MD]: "# The rules of the house\n",
    [IGNORE]: "*.tmp\n",
    [SETTINGS]: '{ "env": { "OF_THE_HOUSE": "1" } }\n',
    [LOCAL]: "# Local rules of the house\n",
  };
  const tracking = (...paths: string[]) =>
    Object.fromEntries(paths.map((path) => [path, THEIRS[path] ?? ""]));

  /** Commits twice, with a merge of main in between, by `git add -A` as models do. */
  function worksAndMerges(model: Model): void {
    model.whenPrompt("were interrupted").expects(OVERLAY).says("Back again.").optional().mayGoOn();
    const commit = (word: string) => `echo ${word} >> work.txt && git add -A && git commit -qm ${word}`;
    model
      .whenPrompt("You are ada")
      .expects(OVERLAY, { times: 1 })
      .uses("Bash", { command: commit("one") })
      .holds("main has changed")
      .uses("Bash", {
        command: `git merge -q --no-edit main && ${commit("two")} && git status --porcelain && echo OK`,
      })
      .expects(/\bOK\b/)
      .says("Done.")
      .mayGoOn();
  }

  /** What of the user's a worker could have changed beside its worktree. */
  function mainCheckout(fleet: Fleet) {
    const exclude = `${fleet.root}/.git/info/exclude`;
    return {
      status: fleet.repo.git("status", "--porcelain", "--ignored"),
      config: readFileSync(`${fleet.root}/.git/config`, "utf8"),
      exclude: existsSync(exclude) ? readFileSync(exclude, "utf8") : null,
    };
  }

  async function expectHidden(fleet: Fleet, changeMain: () => void): Promise<void> {
    const { repo } = fleet;
    const before = mainCheckout(fleet);
    await fleet.sling("ada", "Work and merge");
    await fleet.model.untilHeld("main has changed");
    const { status, ...rest } = mainCheckout(fleet);
    expect({ status: withoutWorktrees(status), ...rest }).toEqual({
      ...before,
      status: withoutWorktrees(before.status),
    });
    const files = repo.git("ls-tree", "-r", "--name-only", "HEAD").split("\n");
    for (const file of files) expect(contentOf(fleet, file)).toBe(repo.git("show", `HEAD:${file}`));
    changeMain();
    fleet.model.release("main has changed");
    const session = await fleet.untilState("ada", "idle");
    fleet.model.verify();
    expect(fleet.gitIn("ada", "diff", "--name-only", "main", "HEAD")).toBe("work.txt");
    expect(fleet.gitIn("ada", "show", "HEAD:work.txt")).toBe("one\ntwo");
    expect(fleet.gitIn("ada", "diff", "--name-only", "HEAD")).toBe("");
    // overseer itself sees nothing uncommitted, nor would the worker be refused when it closes its task.
    const listed = await fleet.overseer(["worktree", "list", "--json"]);
    expect(listed.data<{ worktrees: { uncommitted: string[] }[] }>().worktrees[0]?.uncommitted).toEqual([]);
    const events = await fleet.open((project) => project.ledger.listEvents({ agent: "ada", limit: 100 }));
    expect(events.map(({ type }) => type)).toContain("session.turn_ended");

    expect((await fleet.overseer(["stop", "ada"])).exitCode).toBe(0);
    expect((await fleet.overseer(["resume", "ada"])).exitCode).toBe(0);
    const resumed = await fleet.untilState("ada", "idle");
    expect(resumed.id).not.toBe(session.id);
    const last = fleet.model.requests.filter(({ story }) => story === '"were interrupted"').at(-1);
    expect(last?.seen).toContain(OVERLAY);
    expect(fleet.gitIn("ada", "diff", "--name-only", "HEAD")).toBe("");
    const now = mainCheckout(fleet);
    expect({ config: now.config, exclude: now.exclude }).toEqual({
      config: before.config,
      exclude: before.exclude,
    });
    await fleet.overseer(["stop", "ada"]);
    repo.git("merge", "--quiet", "--ff-only", session.branch ?? "none");
    expect((await fleet.overseer(["worktree", "clean", "ada"])).exitCode).toBe(0);
  }

  function withoutWorktrees(status: string): string {
    return status
      .split("\n")
      .filter((line) => !line.includes(".overseer/"))
      .join("\n");
  }

  function contentOf(fleet: Fleet, file: string): string {
    const path = `${fleet.worktree("ada")}/${file}`;
    return lstatSync(path).isSymbolicLink()
      ? fleet.gitIn("ada", "show", `:${file}`)
      : readFileSync(path, "utf8").trim();
  }

  const rows: Record<string, string[]> = {
    "CLAUDE.md, .gitignore and settings.local.json": [CLAUDE_MD, IGNORE, SETTINGS],
    "CLAUDE.md alone": [CLAUDE_MD],
    ".gitignore alone": [IGNORE],
    "settings.local.json alone": [SETTINGS],
    "all of them and CLAUDE.local.md": [CLAUDE_MD, IGNORE, SETTINGS, LOCAL],
  };
  for (const [what, paths] of Object.entries(rows)) {
    test(`tracks ${what}: the worker has overlay and hooks, and commits and merges nothing of ours`, async () => {
      const files = { "README.md": "# r\n", ...tracking(...paths) };
      await using fleet = await startFleet({ config: PATIENT, files, tell: worksAndMerges });
      await expectHidden(fleet, () => {
        for (const path of paths) {
          if (path !== SETTINGS)
            fleet.repo.write(path, `${readFileSync(join(fleet.root, path), "utf8")}# changed\n`);
          fleet.repo.git("add", "--force", path);
        }
        fleet.repo.git("commit", "--quiet", "--allow-empty", "--message", "the rules have changed");
      });
    });
  }

  for (const path of [CLAUDE_MD, IGNORE, SETTINGS, LOCAL]) {
    test(`begins to track ${path} while the worker is at it`, async () => {
      await using fleet = await startFleet({ config: PATIENT, tell: worksAndMerges });
      await expectHidden(fleet, () => {
        if (!existsSync(join(fleet.root, path))) fleet.repo.write(path, THEIRS[path] ?? "");
        fleet.repo.git("add", "--force", path);
        fleet.repo.git("commit", "--quiet", "--message", "rules");
      });
    });
  }

  test("begins to track CLAUDE.local.md where the overlay had to go there", async () => {
    const files = { "README.md": "# r\n", ...tracking(CLAUDE_MD) };
    await using fleet = await startFleet({ config: PATIENT, files, tell: worksAndMerges });
    await expectHidden(fleet, () => {
      fleet.repo.write(LOCAL, THEIRS[LOCAL] ?? "");
      fleet.repo.git("add", "--force", LOCAL);
      fleet.repo.git("commit", "--quiet", "--message", "rules");
    });
  });

  test("tracks .claude as a link to a folder outside, which stays as it was", async () => {
    using around = tempFolder();
    around.write("shared/CLAUDE.md", "# Shared rules\n");
    await using fleet = await startFleet({ config: PATIENT, tell: worksAndMerges });
    rmSync(`${fleet.root}/.claude`, { recursive: true });
    const shared = join(around.path, "shared");
    Bun.spawnSync(["ln", "-s", shared, `${fleet.root}/.claude`]);
    fleet.repo.git("add", ".claude");
    fleet.repo.git("commit", "--quiet", "--message", "shared rules");
    await expectHidden(fleet, () =>
      fleet.repo.git("commit", "--quiet", "--allow-empty", "--message", "more"),
    );
    expect(Object.keys(snapshot(shared))).toEqual(["CLAUDE.md"]);
    expect(readFileSync(join(shared, "CLAUDE.md"), "utf8")).toBe("# Shared rules\n");
  });
});
