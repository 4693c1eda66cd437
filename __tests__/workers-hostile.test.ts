import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { claudeBinary } from "./support/claude.ts";
import { type CallOptions, isBesideDatabase, snapshot, UNPRINTABLE } from "./support/cli.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { type TempFolder, tempFolder } from "./support/temp.ts";
import { until } from "./support/until.ts";

const TRUSTED_TO_LAST = "agents:\n  bootTimeout: 2m\n";

/** What a repository, its git, its tmux and its ledger hold: what a refusal leaves is the same. */
function stateOf(fleet: Fleet) {
  const { root, repo } = fleet;
  return {
    files: snapshot(root, { except: (path) => path.endsWith(".db") || isBesideDatabase(path) }),
    worktrees: repo.git("worktree", "list", "--porcelain"),
    refs: repo.git("for-each-ref"),
    panes: panesOf(fleet),
    rows: rowsOf(root),
  };
}

/** Name and pid of every pane, one a line. */
function panesOf(fleet: Fleet): string[] {
  const lines = fleet.tmux("list-panes", "-a", "-F", "#{session_name} #{pane_pid}").split("\n");
  return lines.filter((line) => line !== "").toSorted();
}

function rowsOf(root: string) {
  using db = new Database(`${root}/.overseer/sessions.db`, { readwrite: true });
  db.run("PRAGMA busy_timeout = 10000");
  const count = (table: string) => db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n;
  return { sessions: count("sessions"), tasks: count("tasks"), actions: count("actions") };
}

interface Refusal {
  exit: number;
  code: string;
  message: string;
  /** The next step. */
  hint: string;
}

/** Expects a refusal that makes, changes and runs nothing, and that says what to do instead. */
async function refused(
  fleet: Fleet,
  args: readonly string[],
  options: CallOptions & { cwd?: string } = {},
): Promise<Refusal> {
  const before = stateOf(fleet);
  const answer = await fleet.overseer([...args.slice(0, 1), "--json", ...args.slice(1)], options);
  if (answer.exitCode === 0) await endAccepted(fleet, args);
  expect(stateOf(fleet)).toEqual(before);
  const { code, message, hint = "" } = answer.error();
  expect(message).not.toMatch(UNPRINTABLE);
  expect(hint).toMatch(/\S/);
  return { exit: answer.exitCode, code, message, hint };
}

/** What should have been refused must not trouble the tests that follow. */
async function endAccepted(fleet: Fleet, args: readonly string[]): Promise<void> {
  const name = args[args.indexOf("--name") + 1] ?? "";
  await fleet.overseer(["stop", name]);
  await fleet.overseer(["worktree", "clean", name, "--force"]);
  throw new Error(`was not refused: ${args.join(" ")}`);
}

function slingArgs(what: string, ...more: string[]): string[] {
  const given = (flag: string) => more.includes(flag);
  return [
    "sling",
    ...(given("--name") ? [] : ["--name", "ada"]),
    ...(given("--capability") ? [] : ["--capability", "builder"]),
    ...more,
    "--",
    what,
  ];
}

/** Nowhere that a shell in the way could have run `touch x`. */
function expectNothingTouched(fleet: Fleet): void {
  const places = [fleet.root, dirname(fleet.root), fleet.home.path, process.cwd(), "/"];
  for (const place of places) expect(readdirSync(place)).not.toContain("x");
  const found = Object.keys(snapshot(fleet.root)).filter((path) => /(^|\/)x$/.test(path));
  expect(found).toEqual([]);
}

describe("sling refuses, making and running nothing:", () => {
  let fleet: Fleet;
  let taken: string;
  let closed: string;
  let waiting: string;
  let free: string;
  let outside: TempFolder;

  beforeAll(async () => {
    fleet = await startFleet({ config: TRUSTED_TO_LAST, files: { "src/a.ts": "a\n", "README.md": "# r\n" } });
    outside = tempFolder();
    const create = async (...args: string[]) => {
      const answer = await fleet.overseer(["task", "create", ...args, "--json"]);
      return answer.data<{ task: { id: string } }>().task.id;
    };
    free = await create("Free to take");
    closed = await create("Over and done");
    await fleet.overseer(["task", "close", closed, "--reason", "done"]);
    waiting = await create("Comes later", "--depends", free);
    taken = (await fleet.sling("bea", "Hold this task for long", "--files", "held")).taskId;
    const { logFolder } = await fleet.untilState("bea", "idle");
    // The hook writes its logs once the row says so.
    const log = `${fleet.root}/.overseer/logs/${logFolder}/session.log`;
    await until("that is in its log", () => readFileSync(log, "utf8").includes("turn_ended"));
  });
  afterAll(async () => {
    await fleet[Symbol.asyncDispose]();
    outside.remove();
  });

  const badNames = {
    invalid: [
      "-rf",
      "--json",
      "../x",
      "a b",
      "$(touch x)",
      "`touch x`",
      "Ada",
      "a".repeat(300),
      "a".repeat(41),
      "",
      " ",
      "ada\nbob",
      "ada\n",
      "é",
      "ada\u001b[31m",
      "1st",
      "a_b",
      "a/b",
      "ada.",
      "ada;",
    ],
    reserved: ["orchestrator", "human", "all", "overseer", "remediation", "auto-1", "auto-007"],
  };
  for (const [kind, names] of Object.entries(badNames)) {
    for (const name of names) {
      test(`the name ${JSON.stringify(name.slice(0, 50))} (${name.length})`, async () => {
        const refusal = await refused(fleet, slingArgs("Do a thing", "--name", name));
        expect(refusal).toMatchObject({ exit: 64, code: `name_${kind}` });
        expect(refusal.hint).toContain("name");
        expect(refusal.message.length).toBeLessThan(120);
      });
    }
  }

  const notATask = [
    "-rf",
    "../x",
    "$(id)",
    "`id`",
    "",
    " \n ",
    "é",
    "x".repeat(300),
    "a..b",
    "a.lock",
    "x/y",
    "\u001b[2J",
  ];
  for (const what of notATask) {
    test(`${JSON.stringify(what.slice(0, 40))} (${what.length}) as the task`, async () => {
      const refusal = await refused(fleet, slingArgs(what));
      expect(refusal).toMatchObject({ exit: 64, code: "task_id_invalid" });
      expect(refusal.hint).toContain("overseer task list");
    });
  }

  for (const what of ["orchestrator", "human", "all", "auto-1", "Ada", "t-000000"]) {
    test(`${what}, which is no task's id though it could be one`, async () => {
      const refusal = await refused(fleet, slingArgs(what));
      expect(refusal).toMatchObject({ exit: 64, code: "task_unknown" });
      expect(refusal.hint).toContain('in several words what is to be done, in quotes: overseer sling "');
    });
  }

  test("an id with a slip, and names the one that was meant", async () => {
    const slip = `${free.slice(0, -1)}${free.endsWith("z") ? "y" : "z"}`;
    const refusal = await refused(fleet, slingArgs(slip));
    expect(refusal).toMatchObject({ exit: 64, code: "task_unknown" });
    expect(refusal.hint).toContain(free);
  });

  test("a task that is closed, that waits, or that somebody works on", async () => {
    expect(await refused(fleet, slingArgs(closed))).toMatchObject({ exit: 1, code: "task_closed" });
    const waits = await refused(fleet, slingArgs(waiting));
    expect(waits).toMatchObject({ exit: 1, code: "task_waits" });
    expect(waits.message).toContain(free);
    const held = await refused(fleet, slingArgs(taken));
    expect(held).toMatchObject({ exit: 1, code: "task_taken" });
    expect(held.hint).toContain("overseer stop bea");
  });

  test("the name of somebody who lives", async () => {
    const refusal = await refused(fleet, slingArgs("Do a thing", "--name", "bea"));
    expect(refusal).toMatchObject({ exit: 1, code: "name_taken" });
    expect(refusal.hint).toContain("overseer status");
  });

  test("a text that was not put in quotes", async () => {
    const args = ["sling", "Add", "a", "login", "form", "--name", "ada", "--capability", "builder"];
    expect(await refused(fleet, args)).toMatchObject({ exit: 64, code: "usage" });
  });

  test("no name, no role, no task", async () => {
    const rows = [
      ["sling", "Do a thing", "--name", "ada"],
      ["sling", "Do a thing", "--capability", "builder"],
      ["sling", "--name", "ada", "--capability", "builder"],
    ];
    for (const args of rows) {
      const refusal = await refused(fleet, args);
      expect(refusal).toMatchObject({ exit: 64, code: "usage", hint: "overseer sling --help" });
    }
  });

  for (const capability of [
    "nobody",
    "",
    "Builder",
    "__proto__",
    "constructor",
    "orchestrator",
    "-x",
    "a\nb",
  ]) {
    test(`the capability ${JSON.stringify(capability)}`, async () => {
      const refusal = await refused(fleet, slingArgs("Do a thing", "--capability", capability));
      expect(refusal).toMatchObject({ exit: 64, code: "capability_unknown" });
      expect(refusal.hint).toContain("builder, ");
    });
  }

  for (const files of [
    "/etc",
    "../x",
    "",
    ",",
    " , ",
    "src/../../x",
    ".",
    "./",
    "src,/etc/passwd",
    "a\nb",
    "src/..",
  ]) {
    test(`--files ${JSON.stringify(files)}`, async () => {
      const refusal = await refused(fleet, slingArgs("Do a thing", "--files", files));
      expect(refusal).toMatchObject({ exit: 64, code: "usage" });
      expect(refusal.hint).toContain("--files");
    });
  }

  test("--files that somebody else holds, as a folder around, a file within or a glob", async () => {
    for (const files of ["held", "held/deep/a.ts", "./held/", "hel*", "**/*.ts"]) {
      const refusal = await refused(fleet, slingArgs("Do a thing", "--files", files));
      expect(refusal).toMatchObject({ exit: 1, code: "scope_taken" });
      expect(refusal.hint).toContain("overseer wait bea");
    }
  });

  const specs: Record<string, () => string> = {
    "an absolute path outside": () => outside.write("spec.md", "x\n"),
    "a way out": () => `../${outside.path.slice(1).split("/").at(-1)}/spec.md`,
    "a link that leads out": () => linked("link.md", outside.write("spec.md", "x\n")),
    "a folder link that leads out": () => `${linked("link", outside.path)}/spec.md`,
    "a folder": () => "src",
    "what is not there": () => "no-such-file.md",
    "an empty name": () => "",
    "a link to nowhere": () => linked("nowhere.md", "/nonexistent/spec.md"),
    binary: () => fleet.repo.write("binary.bin", "PK\0\0\u0001").slice(fleet.root.length + 1),
    "what is too large": () => fleet.repo.write("large.md", "x".repeat(300_000)).slice(fleet.root.length + 1),
    "a device": () => "/dev/zero",
  };
  function linked(name: string, target: string): string {
    rmSync(`${fleet.root}/${name}`, { force: true });
    symlinkSync(target, `${fleet.root}/${name}`);
    return name;
  }
  for (const [what, make] of Object.entries(specs)) {
    test(`--spec with ${what}`, async () => {
      outside.write("spec.md", "x\n");
      const refusal = await refused(fleet, slingArgs("Do a thing", "--spec", make()));
      expect(refusal).toMatchObject({ exit: 64, code: "spec_unreadable" });
      expect(refusal.hint).toContain("--spec");
      const isSizeMeant = what === "what is too large";
      expect(refusal.message.includes("longer than")).toBe(isSizeMeant);
    });
  }

  test("--spec with a pipe that nobody writes to, without waiting for it", async () => {
    Bun.spawnSync(["mkfifo", `${fleet.root}/pipe.md`]);
    using _ = { [Symbol.dispose]: () => rmSync(`${fleet.root}/pipe.md`) };
    const before = stateOf(fleet);
    const child = Bun.spawn(
      [join(import.meta.dir, "../bin/overseer"), ...slingArgs("Do a thing", "--spec", "pipe.md")],
      {
        cwd: fleet.root,
        env: fleet.env,
        stdout: "ignore",
        stderr: "pipe",
        timeout: 20_000,
        killSignal: "SIGKILL",
      },
    );
    expect(await child.exited).toBe(64);
    expect(await child.stderr.text()).toContain("--spec");
    expect(stateOf(fleet)).toEqual(before);
  });

  for (const base of [
    "unknown",
    "-x",
    "--upload-pack=touch x",
    "",
    "$(touch x)",
    "main^{tree}",
    "HEAD:README.md",
    "main..main",
  ]) {
    test(`--base ${JSON.stringify(base)}`, async () => {
      const refusal = await refused(fleet, slingArgs("Do a thing", "--base", base));
      expect(refusal).toMatchObject({ exit: 64, code: "base_unknown" });
      expect(refusal.hint).toContain("git branch");
      expectNothingTouched(fleet);
    });
  }

  const badModels = ["claude opus", "-x", "--dangerously-skip-permissions", "", " ", "a\nb", "\u001b[31m"];
  for (const [at, model] of badModels.entries()) {
    test(`--model ${JSON.stringify(model)}`, async () => {
      const refusal = await refused(fleet, slingArgs("Do a thing", "--model", model, "--name", `m-${at}`));
      expect(refusal).toMatchObject({ exit: 64, code: "usage" });
      expect(refusal.message).toContain("--model");
    });
  }

  for (const depth of ["-1", "x", "1.5", "", "1", "9999", "0x0"]) {
    test(`--depth ${JSON.stringify(depth)}`, async () => {
      const refusal = await refused(fleet, slingArgs("Do a thing", "--depth", depth));
      expect(refusal).toMatchObject({ exit: 64, code: "usage" });
      expect(refusal.message).toContain("--depth");
    });
  }

  for (const parent of ["nobody", "../x", "", "-x", "$(touch x)", "ada"]) {
    test(`--parent ${JSON.stringify(parent)}`, async () => {
      const refusal = await refused(fleet, slingArgs("Do a thing", "--parent", parent));
      expect(refusal).toMatchObject({ exit: 64, code: "agent_unknown" });
    });
  }

  test("a parent that may not sling", async () => {
    const refusal = await refused(fleet, slingArgs("Do a thing", "--parent", "bea"));
    expect(refusal).toMatchObject({ exit: 1, code: "may_not_spawn" });
  });

  function branched(name: string): Disposable {
    fleet.repo.git("branch", name);
    return { [Symbol.dispose]: () => fleet.repo.git("branch", "-D", name) };
  }

  const place = () => `${fleet.root}/.overseer/worktrees/eli`;
  /** Takes away whatever stands there in the end, also when the test has failed. */
  function occupied(make: () => void): Disposable {
    make();
    return {
      [Symbol.dispose]() {
        rmSync(place(), { recursive: true, force: true });
        fleet.repo.git("worktree", "prune");
      },
    };
  }

  test("a branch of that name and task that is there already, whoever made it", async () => {
    using _ = branched(`overseer/bob/${free}`);
    const refusal = await refused(fleet, slingArgs(free, "--name", "bob"));
    expect(refusal).toMatchObject({ exit: 1, code: "branch_exists" });
    expect(refusal.hint).toContain(`overseer/bob/${free}`);
  });

  for (const branch of ["overseer/eve", "overseer/eve/TASK/deeper"]) {
    test(`a branch ${branch} that stands in the way of its own`, async () => {
      const name = branch.replace("TASK", free);
      using _ = branched(name);
      const refusal = await refused(fleet, slingArgs(free, "--name", "eve"));
      expect(refusal).toMatchObject({ exit: 1, code: "branch_exists" });
      expect(refusal.hint).toContain(name);
    });
  }

  test("a folder in the place of the worktree that is not ours, with all that is in it", async () => {
    using _ = occupied(() => fleet.repo.write(".overseer/worktrees/eli/notes.txt", "mine\n"));
    const refusal = await refused(fleet, slingArgs("Do a thing", "--name", "eli"));
    expect(refusal.exit).toBe(1);
    expect(`${refusal.message} ${refusal.hint}`).toContain(".overseer/worktrees/eli");
    expect((await fleet.overseer(["worktree", "clean", "eli"])).exitCode).toBe(1);
    expect(readFileSync(`${place()}/notes.txt`, "utf8")).toBe("mine\n");
  });

  test("a link in the place of the worktree", async () => {
    outside.write("theirs/notes.txt", "mine\n");
    using _ = occupied(() => symlinkSync(join(outside.path, "theirs"), place()));
    const refusal = await refused(fleet, slingArgs("Do a thing", "--name", "eli"));
    expect(refusal.exit).toBe(1);
    expect(readdirSync(join(outside.path, "theirs"))).toEqual(["notes.txt"]);
  });

  test("a worktree of the user's own in that place", async () => {
    using _branch = branched("mine");
    using _folder = occupied(() => fleet.repo.git("worktree", "add", "--quiet", place(), "mine"));
    const refusal = await refused(fleet, slingArgs("Do a thing", "--name", "eli"));
    expect(refusal.exit).toBe(1);
    expect(`${refusal.message} ${refusal.hint}`).toContain(".overseer/worktrees/eli");
  });

  test("on a screen, in words without control characters and with the next step", async () => {
    const evil = "\u001b[31mred\u0007\u009b2J\u202e";
    for (const args of [
      slingArgs(evil),
      slingArgs("Do it now", "--name", evil),
      slingArgs("Do it", "--base", evil),
    ]) {
      const { exitCode, stdout, stderr } = await fleet.overseer(args);
      expect({ exitCode, stdout }).toEqual({ exitCode: 64, stdout: "" });
      expect(stderr).not.toMatch(UNPRINTABLE);
      expect(stderr.trim().split("\n").length).toBeGreaterThan(1);
    }
  });

  describe("what stands in .overseer is broken:", () => {
    const manifest = () => `${fleet.root}/.overseer/agent-manifest.json`;
    const rows: Record<
      string,
      { file: string; code: string; spoil: (text: string) => string; says: RegExp }
    > = {
      "a manifest that is no JSON": {
        file: "agent-manifest.json",
        code: "manifest_invalid",
        spoil: (text) => text.slice(0, 40),
        says: /agent-manifest\.json/,
      },
      "a manifest with an unknown key": {
        file: "agent-manifest.json",
        code: "manifest_invalid",
        spoil: (text) => text.replace('"canSpawn"', '"canSpwan"'),
        says: /canSpwan/,
      },
      "a manifest that names a definition which is not there": {
        file: "agent-manifest.json",
        code: "manifest_invalid",
        spoil: (text) => text.replace('"builder.md"', '"bricklayer.md"'),
        says: /bricklayer\.md/,
      },
      "a manifest that names a definition elsewhere": {
        file: "agent-manifest.json",
        code: "manifest_invalid",
        spoil: (text) => text.replace('"builder.md"', '"../../etc/passwd.md"'),
        says: /file/,
      },
      "a manifest whose index contradicts": {
        file: "agent-manifest.json",
        code: "manifest_invalid",
        spoil: (text) => {
          const parsed = JSON.parse(text);
          return JSON.stringify({
            ...parsed,
            capabilityIndex: { ...parsed.capabilityIndex, cook: ["builder"] },
          });
        },
        says: /capabilityIndex\.cook/,
      },
      "hooks that are no JSON": {
        file: "hooks.json",
        code: "settings_invalid",
        spoil: () => '{"hooks": ',
        says: /hooks\.json/,
      },
      "hooks that are a list": {
        file: "hooks.json",
        code: "settings_invalid",
        spoil: () => '{"hooks": []}',
        says: /hooks\.json/,
      },
      "a configuration that is no YAML": {
        file: "config.yaml",
        code: "config_invalid",
        spoil: () => "agents: [",
        says: /config\.yaml/,
      },
      "a configuration with an unknown key": {
        file: "config.yaml",
        code: "config_invalid",
        spoil: () => "agents:\n  maxConcurent: 2\n",
        says: /maxConcurrent/,
      },
      "a canonical branch that is not there": {
        file: "config.yaml",
        code: "base_unknown",
        spoil: () => "project:\n  canonicalBranch: gone\n",
        says: /gone/,
      },
      "a program that is not there": {
        file: "config.yaml",
        code: "program_missing",
        spoil: () => "claude:\n  bin: /nonexistent/claude\n",
        says: /nonexistent/,
      },
    };
    const exits: Record<string, number> = { program_missing: 69, base_unknown: 64 };
    for (const [what, { file, code, spoil, says }] of Object.entries(rows)) {
      test(what, async () => {
        const path = `${fleet.root}/.overseer/${file}`;
        const before = readFileSync(path, "utf8");
        expect(spoil(before)).not.toBe(before);
        writeFileSync(path, spoil(before));
        using _ = { [Symbol.dispose]: () => writeFileSync(path, before) };
        const refusal = await refused(fleet, slingArgs("Do a thing", "--name", "flo"));
        expect({ exit: refusal.exit, code: refusal.code }).toEqual({ exit: exits[code] ?? 1, code });
        expect(`${refusal.message}\n${refusal.hint}`).toMatch(says);
      });
    }

    test("a manifest that is gone", async () => {
      const before = readFileSync(manifest(), "utf8");
      rmSync(manifest());
      const refusal = await refused(fleet, slingArgs("Do a thing"));
      writeFileSync(manifest(), before);
      expect(refusal).toMatchObject({ exit: 1, code: "manifest_invalid" });
      expect(refusal.message).toContain("overseer init");
    });
  });

  for (const missing of ["tmux", "claude", "git"]) {
    test(`${missing} is not installed`, async () => {
      using bin = tempFolder();
      const present = ["git", "tmux", "sh", "readlink"].filter((program) => program !== missing);
      for (const program of present) symlinkSync(Bun.which(program) ?? "", join(bin.path, program));
      if (missing !== "claude") symlinkSync(claudeBinary, join(bin.path, "claude"));
      const refusal = await refused(fleet, slingArgs("Do a thing"), { env: { PATH: bin.path } });
      expect(refusal).toMatchObject({ exit: 69, code: "program_missing" });
      expect(refusal.message).toContain(missing);
    });
  }

  const neighbours: Record<string, (name: string) => string[]> = {
    stop: (name) => ["stop", "--", name],
    resume: (name) => ["resume", "--", name],
    wait: (name) => ["wait", "--timeout", "1s", "--", name],
    peek: (name) => ["peek", "--", name],
    attach: (name) => ["attach", "--", name],
    diff: (name) => ["diff", "--", name],
    logs: (name) => ["logs", "--", name],
    inspect: (name) => ["inspect", "--", name],
    "worktree clean": (name) => ["worktree", "clean", "--force", "--", name],
  };
  for (const [command, words] of Object.entries(neighbours)) {
    test(`so does ${command}, of whoever is no worker`, async () => {
      for (const name of [
        "../../src",
        "-rf",
        "$(touch x)",
        "",
        "orchestrator",
        "human",
        "bex",
        "\u001b[2J",
      ]) {
        const before = stateOf(fleet);
        const { exitCode, stdout, stderr } = await fleet.overseer(words(name));
        expect({ name, exitCode, stdout }).toEqual({ name, exitCode: 64, stdout: "" });
        expect(stderr).not.toMatch(UNPRINTABLE);
        expect(stderr).toMatch(name === "bex" ? /next: .*\bbea\b/ : /next: \S/);
        expect(stateOf(fleet)).toEqual(before);
      }
    });
  }

  test("and after all of that the same sling works", async () => {
    expectNothingTouched(fleet);
    const answer = await fleet.overseer([...slingArgs(free).slice(0, -2), "--json", "--", free]);
    expect(answer.data<{ agent: { state: string } }>().agent.state).not.toBe("failed");
    await fleet.untilState("ada", "idle");
  });
});

describe("a folder of worktrees outside of the repository", () => {
  for (const written of ["../elsewhere", "../elsewhere/", "LINK"]) {
    test(`${written}: what a worker has not committed is seen, and nothing beside it is touched`, async () => {
      using around = tempFolder();
      const root = join(around.path, "repo");
      await using fleet = await startFleet({ repo: repoAt(root), config: TRUSTED_TO_LAST });
      mkdirSync(join(around.path, "elsewhere/other"), { recursive: true });
      writeFileSync(join(around.path, "elsewhere/other/notes.txt"), "mine\n");
      symlinkSync(join(around.path, "elsewhere"), join(around.path, "link"));
      const place = written === "LINK" ? join(around.path, "link") : written;
      fleet.repo.write(".overseer/config.yaml", `${TRUSTED_TO_LAST}worktrees:\n  baseDir: ${place}\n`);
      await fleet.sling("ada", "Do a thing");
      await fleet.untilState("ada", "idle");
      writeFileSync(join(around.path, "elsewhere/ada/draft.txt"), "not committed\n");
      await fleet.overseer(["stop", "ada"]);
      const kept = await fleet.overseer(["worktree", "clean", "ada", "--json"]);
      expect(kept.exitCode).toBe(1);
      expect(kept.error().code).toBe("worktree_dirty");
      expect(readFileSync(join(around.path, "elsewhere/ada/draft.txt"), "utf8")).toBe("not committed\n");
      await fleet.overseer(["worktree", "clean", "--all", "--force"]);
      expect(existsSync(join(around.path, "elsewhere/ada"))).toBe(false);
      expect(readFileSync(join(around.path, "elsewhere/other/notes.txt"), "utf8")).toBe("mine\n");
      const rescued = fleet.repo.git("for-each-ref", "--format=%(refname)", "refs/overseer/rescue/ada");
      expect(fleet.repo.git("show", `${rescued}:draft.txt`)).toBe("not committed");
    });
  }

  test("that holds the repository itself: cleaning takes neither it nor what lies beside it", async () => {
    using around = tempFolder();
    const root = join(around.path, "repo");
    await using fleet = await startFleet({ repo: repoAt(root), config: "worktrees:\n  baseDir: ..\n" });
    around.write("other/notes.txt", "mine\n");
    const before = snapshot(around.path, { except: (path) => path.includes(".overseer") });
    const listed = await fleet.overseer(["worktree", "list", "--json"]);
    expect(listed.stdout).not.toContain("other");
    for (const words of [
      ["--all"],
      ["--all", "--force"],
      ["other"],
      ["other", "--force"],
      ["repo", "--force"],
    ]) {
      await fleet.overseer(["worktree", "clean", ...words]);
      expect(snapshot(around.path, { except: (path) => path.includes(".overseer") })).toEqual(before);
    }
    for (const name of ["other", "repo"]) {
      const refusal = await refused(fleet, slingArgs("Do a thing", "--name", name));
      expect(refusal.exit).toBe(1);
    }
  });
});

function repoAt(path: string) {
  mkdirSync(path, { recursive: true });
  const git = (...args: string[]) => {
    const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };
    const { exitCode, stdout, stderr } = Bun.spawnSync(["git", ...args], { cwd: path, env });
    if (exitCode !== 0) throw new Error(`git ${args.join(" ")}: ${stderr.toString()}`);
    return stdout.toString().trim();
  };
  git("init", "--quiet", "--initial-branch=main");
  git("config", "user.name", "Test");
  git("config", "user.email", "test@example.invalid");
  git("commit", "--quiet", "--allow-empty", "--message", "first");
  const remove = () => rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  return {
    path,
    git,
    remove,
    [Symbol.dispose]: remove,
    write(name: string, content: string, mode = 0o644) {
      const file = join(path, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content, { mode });
      return file;
    },
  };
}

describe("the text of a task is data", () => {
  test("with substitutions, quotes, lines and escapes in it: the model reads it, nothing runs, screens stay clean", async () => {
    const title = `Say "it's" $(touch x) \`touch x\` #(touch x) %n \\n {{name}} \u001b[31mred\u0007; touch x`;
    const text = `${title}\nsecond line: $(touch x)\n\`\`\`\n# Not a heading\u202e\n`;
    await using fleet = await startFleet({
      config: TRUSTED_TO_LAST,
      tell: (model) =>
        model.whenPrompt("You are ada").expects("second line: $(touch x)").says("Done.").mayGoOn(),
    });
    const answer = await fleet.overseer([
      "sling",
      "--name",
      "ada",
      "--capability",
      "scout",
      "--json",
      "--",
      text,
    ]);
    const { taskId } = answer.data<{ agent: { taskId: string } }>().agent;
    await fleet.untilState("ada", "idle");
    fleet.model.verify();
    expectNothingTouched(fleet);
    for (const words of [
      ["status"],
      ["inspect", "ada"],
      ["task", "show", taskId],
      ["task", "list"],
      ["events"],
      ["logs", "ada"],
      ["prime", "--agent", "ada"],
      ["worktree", "list"],
      ["peek", "ada"],
    ]) {
      const shown = await fleet.overseer(words);
      expect({ words, exit: shown.exitCode, stderr: shown.stderr }).toEqual({ words, exit: 0, stderr: "" });
      expect(shown.stdout).not.toMatch(UNPRINTABLE);
    }
    for (const words of [["status"], ["inspect", "ada"], ["task", "show", taskId], ["events"]]) {
      const shown = await fleet.overseer([...words, "--json"]);
      expect(shown.data<object>()).toBeObject();
      expect(shown.stdout.trimEnd()).not.toMatch(/\p{Cc}/u);
    }
    const shown = await fleet.overseer(["task", "show", taskId, "--json"]);
    const { task } = shown.data<{ task: { title: string; body: string } }>();
    expect(task.title).toBe(title);
    expect(task.body).toContain("second line: $(touch x)");
  });

  test("of 300 characters on one line is a task, too, and the model sees all of it", async () => {
    const text = `Make ${"very ".repeat(58)}sure of it`;
    expect(text.length).toBeGreaterThan(300);
    await using fleet = await startFleet({
      config: TRUSTED_TO_LAST,
      tell: (model) => model.whenPrompt("You are ada").expects(text).says("Done.").mayGoOn(),
    });
    await fleet.sling("ada", text);
    await fleet.untilState("ada", "idle");
    fleet.model.verify();
  });

  test("that begins with a dash, a slash or @ keeps no worker from starting", async () => {
    using outside = tempFolder();
    const other = outside.write("other.md", "# Of somebody else\n");
    const texts = {
      ada: "-x --model y",
      bea: "/help me out",
      cas: `Look at @${other} and @~/.claude.json now`,
    };
    await using fleet = await startFleet({
      config: TRUSTED_TO_LAST,
      tell: (model) => model.whenPrompt("You are ").says("Done.").mayGoOn(),
    });
    for (const [name, text] of Object.entries(texts)) {
      const answer = await fleet.overseer([
        "sling",
        "--name",
        name,
        "--capability",
        "scout",
        "--json",
        "--",
        text,
      ]);
      expect(answer.data<object>()).toBeObject();
      await fleet.untilState(name, "idle");
      expect(fleet.model.requests.at(-1)?.seen).toContain(text);
    }
    fleet.model.verify();
  });
});

describe("what a worker is given", () => {
  test("its files are kept as they were meant, an empty one between two commas left out", async () => {
    await using fleet = await startFleet({ config: TRUSTED_TO_LAST });
    await fleet.sling("ada", "Do a thing", "--files", "a,,b, ./docs//deep/ ,src/**/*.ts,b");
    expect((await fleet.session("ada")).fileScope).toEqual(["a", "b", "docs/deep", "src/**/*.ts"]);
    await fleet.untilState("ada", "idle");
  });

  test("the hooks of .overseer/hooks.json are in its settings beside ours, and they fire", async () => {
    using outside = tempFolder();
    const trace = join(outside.path, "fired");
    await using fleet = await startFleet({
      config: TRUSTED_TO_LAST,
      tell: (model) =>
        model.whenPrompt("You are ada").uses("Bash", { command: "echo hello" }).says("Done.").mayGoOn(),
    });
    const command = (word: string) => `echo ${word} "$OVERSEER_AGENT_NAME" >> '${trace}'`;
    const group = (word: string) => [{ hooks: [{ type: "command", command: command(word) }] }];
    const hooks = {
      SessionStart: group("start"),
      PostToolUse: [{ matcher: "Bash", ...group("bash")[0] }],
      SubagentStop: group("never"),
      Stop: group("stop"),
    };
    fleet.repo.write(".overseer/hooks.json", JSON.stringify({ hooks }));
    await fleet.sling("ada", "Do a thing");
    await fleet.untilState("ada", "idle");
    const lines = () => (existsSync(trace) ? readFileSync(trace, "utf8").trim().split("\n").toSorted() : []);
    await until("the user's hooks have fired", () => lines().length >= 3, { timeoutMs: 20_000 });
    expect(lines()).toEqual(["bash ada", "start ada", "stop ada"]);
    const settings = JSON.parse(readFileSync(`${fleet.root}/.overseer/agents/ada/settings.json`, "utf8"));
    const commands = settings.hooks.Stop.flatMap((one: { hooks: { command: string }[] }) =>
      one.hooks.map((hook) => hook.command),
    );
    expect(commands).toContain(command("stop"));
    expect(commands.filter((line: string) => line.includes("/dist/hook.js"))).toHaveLength(1);
  });

  for (const kind of ["absolute", "relative"]) {
    test(`claude, tmux and git by ${kind} path, as the configuration says`, async () => {
      using outside = tempFolder();
      const trace = (name: string) => join(outside.path, `${name}.used`);
      const real = { claude: claudeBinary, tmux: Bun.which("tmux"), git: Bun.which("git") };
      await using fleet = await startFleet();
      for (const [name, program] of Object.entries(real)) {
        const script = `#!/bin/sh\necho "$*" >> '${trace(name)}'\nexec '${program}' "$@"\n`;
        fleet.repo.write(`tools/${name}`, script, 0o755);
      }
      const folder = kind === "absolute" ? `${fleet.root}/tools` : "tools";
      const bins = Object.keys(real).map((name) => `${name}:\n  bin: ${folder}/${name}\n`);
      fleet.repo.write(".overseer/config.yaml", `${TRUSTED_TO_LAST}${bins.join("")}`);
      mkdirSync(`${fleet.root}/sub`);
      const slung = await fleet.overseer(slingArgs("Do a thing"), { cwd: `${fleet.root}/sub` });
      expect({ exit: slung.exitCode, stderr: slung.stderr }).toEqual({ exit: 0, stderr: "" });
      await fleet.untilState("ada", "idle");
      expect((await fleet.overseer(["peek", "ada"])).exitCode).toBe(0);
      expect((await fleet.overseer(["stop", "ada"])).exitCode).toBe(0);
      expect((await fleet.overseer(["worktree", "clean", "ada"])).exitCode).toBe(0);
      expect(readFileSync(trace("claude"), "utf8")).toContain("--session-id");
      expect(readFileSync(trace("tmux"), "utf8")).toContain("new-session");
      expect(readFileSync(trace("git"), "utf8")).toContain("worktree add");
    });
  }
});

describe("many at once", () => {
  const slingOf = (fleet: Fleet, name: string, what: string, ...more: string[]) =>
    fleet.overseer(["sling", what, "--name", name, "--capability", "builder", ...more, "--json"]);

  function branchesOf(fleet: Fleet): string[] {
    const lines = fleet.repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads/overseer");
    return lines === "" ? [] : lines.split("\n").map((line) => line.split("/")[1] ?? "");
  }
  function worktreesOf(fleet: Fleet): string[] {
    const lines = fleet.repo.git("worktree", "list", "--porcelain").split("\n");
    const paths = lines.filter((line) => line.startsWith("worktree ")).slice(1);
    return paths.map((line) => line.slice(line.lastIndexOf("/") + 1)).toSorted();
  }
  /** Everything there is names exactly these. */
  async function expectExactly(fleet: Fleet, names: string[]): Promise<void> {
    expect(branchesOf(fleet)).toEqual(names);
    expect(worktreesOf(fleet)).toEqual(names);
    expect(readdirSync(`${fleet.root}/.overseer/worktrees`).toSorted()).toEqual(names);
    const panes = panesOf(fleet).map((line) => line.split(" ")[0]);
    expect(panes).toEqual(names.map((name) => `overseer-${name}`));
    const live = await fleet.open((project) => project.ledger.liveWorkers(-1));
    expect(live.map(({ name }) => name).toSorted()).toEqual(names);
  }

  test("ten slings started at the same moment all succeed, each with what is its own", async () => {
    await using fleet = await startFleet({ config: TRUSTED_TO_LAST });
    const names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map((letter) => `w-${letter}`);
    const answers = await Promise.all(names.map((name) => slingOf(fleet, name, `Work of ${name} alone`)));
    const refused = answers.filter(({ exitCode }) => exitCode !== 0).map(({ stdout }) => stdout);
    expect({ refused, words: answers.map(({ stderr }) => stderr).join("") }).toEqual({
      refused: [],
      words: "",
    });
    await expectExactly(fleet, names);
    for (const name of names) {
      const session = await fleet.untilState(name, "idle");
      const theirs = fleet.model.requests.filter(({ sessionId }) => sessionId === session.claudeSessionId);
      expect(theirs.some(({ seen }) => seen.includes(`Work of ${name} alone`))).toBe(true);
      expect(fleet.gitIn(name, "status", "--porcelain")).toBe("");
      expect(fleet.gitIn(name, "branch", "--show-current")).toBe(session.branch ?? "none");
    }
    expect(new Set(panesOf(fleet).map((line) => line.split(" ")[1])).size).toBe(10);
    expect(existsSync(`${fleet.root}/.overseer/logs/errors.log`)).toBe(false);
    expect((await fleet.overseer(["stop", "--all"])).exitCode).toBe(0);
    expect((await fleet.overseer(["worktree", "clean", "--all"])).exitCode).toBe(0);
    await expectExactly(fleet, []);
  });

  test("six at once where two may be give two workers and four refusals", async () => {
    await using fleet = await startFleet({ config: `${TRUSTED_TO_LAST}  maxConcurrent: 2\n` });
    const names = ["w-a", "w-b", "w-c", "w-d", "w-e", "w-f"];
    const answers = await Promise.all(names.map((name) => slingOf(fleet, name, `Work of ${name}`)));
    expect(answers.map(({ exitCode }) => exitCode).toSorted()).toEqual([0, 0, 75, 75, 75, 75]);
    for (const answer of answers.filter(({ exitCode }) => exitCode === 75)) {
      const { code, message, hint } = answer.error();
      expect(code).toBe("too_many_workers");
      expect(message).toMatch(/2 workers are live already \(w-., w-.\), at most 2/);
      expect(hint).toMatch(/overseer wait --any.*agents\.maxConcurrent/);
    }
    await expectExactly(
      fleet,
      names.filter((_, at) => answers[at]?.exitCode === 0),
    );
    expect(rowsOf(fleet.root)).toEqual({ sessions: 2, tasks: 2, actions: 2 });
  });

  test("of five with one name, one is slung", async () => {
    await using fleet = await startFleet({ config: TRUSTED_TO_LAST });
    const texts = ["first", "second", "third", "fourth", "fifth"].map((word) => `The ${word} thing`);
    const answers = await Promise.all(texts.map((text) => slingOf(fleet, "ada", text)));
    expect(answers.map(({ exitCode }) => exitCode).toSorted()).toEqual([0, 1, 1, 1, 1]);
    for (const answer of answers.filter(({ exitCode }) => exitCode !== 0)) {
      expect(answer.error().code).toBe("name_taken");
      expect(answer.error().hint).toContain("overseer status");
    }
    await expectExactly(fleet, ["ada"]);
    expect(rowsOf(fleet.root)).toEqual({ sessions: 1, tasks: 1, actions: 1 });
    const winner = texts[answers.findIndex(({ exitCode }) => exitCode === 0)] ?? "nobody";
    await fleet.untilState("ada", "idle");
    expect(fleet.model.requests.at(-1)?.seen).toContain(winner);
  });

  test("of four on one task, one is slung", async () => {
    await using fleet = await startFleet({ config: TRUSTED_TO_LAST });
    const created = await fleet.overseer(["task", "create", "Only once", "--json"]);
    const { id } = created.data<{ task: { id: string } }>().task;
    const names = ["ada", "bea", "cas", "dan"];
    const answers = await Promise.all(names.map((name) => slingOf(fleet, name, id)));
    expect(answers.map(({ exitCode }) => exitCode).toSorted()).toEqual([0, 1, 1, 1]);
    const winner = names.filter((_, at) => answers[at]?.exitCode === 0);
    for (const answer of answers.filter(({ exitCode }) => exitCode !== 0)) {
      expect(answer.error().code).toBe("task_taken");
      expect(answer.error().message).toContain(winner[0] ?? "nobody");
    }
    await expectExactly(fleet, winner);
    expect(rowsOf(fleet.root)).toEqual({ sessions: 1, tasks: 1, actions: 1 });
  });

  test("of three whose files overlap, one is slung", async () => {
    await using fleet = await startFleet({ config: TRUSTED_TO_LAST });
    const scopes = { ada: "src", bea: "src/login.ts", cas: "**/*.ts" };
    const calls = Object.entries(scopes).map(([name, files]) =>
      slingOf(fleet, name, `Of ${name}`, "--files", files),
    );
    const answers = await Promise.all(calls);
    expect(answers.map(({ exitCode }) => exitCode).toSorted()).toEqual([0, 1, 1]);
    for (const answer of answers.filter(({ exitCode }) => exitCode !== 0)) {
      expect(answer.error().code).toBe("scope_taken");
    }
    await expectExactly(
      fleet,
      Object.keys(scopes).filter((_, at) => answers[at]?.exitCode === 0),
    );
  });

  test("agents.staggerDelay lies between them", async () => {
    const delayMs = 1_500;
    await using fleet = await startFleet({ config: `${TRUSTED_TO_LAST}  staggerDelay: ${delayMs}ms\n` });
    const names = ["ada", "bea", "cas"];
    const answers = await Promise.all(names.map((name) => slingOf(fleet, name, `Work of ${name}`)));
    expect(answers.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0]);
    const begun = await Promise.all(names.map(async (name) => (await fleet.session(name)).startedAt));
    const events = await fleet.open((project) =>
      project.ledger.listEvents({ type: "session.launched", limit: 10 }),
    );
    const launched = events.map(({ at }) => at).toSorted((one, other) => one - other);
    expect(launched).toHaveLength(3);
    // The first may take as long as it likes to be launched, so each is compared with when the first was begun.
    for (const [at, time] of launched.entries()) {
      expect(time - Math.min(...begun)).toBeGreaterThanOrEqual(at * delayMs);
    }
  });
});
