import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { overseer, snapshot, tempProject } from "./support/cli.ts";
import { type TempRepo, tempFolder, tempRepo } from "./support/temp.ts";

const SETTINGS = ".claude/settings.local.json";
const ORCHESTRATOR_EVENTS = [
  "SessionStart",
  "UserPromptSubmit",
  "PostToolUse",
  "PostToolUseFailure",
  "Stop",
  "StopFailure",
  "SessionEnd",
];

interface Group {
  matcher?: string;
  hooks: { type: string; command?: string }[];
}

const read = (repo: { path: string }, file: string) => readFileSync(`${repo.path}/${file}`, "utf8");
const hooksOf = (repo: { path: string }): Record<string, Group[]> => JSON.parse(read(repo, SETTINGS)).hooks;
const isOurs = ({ hooks }: Group) => hooks.some(({ command = "" }) => command.includes("/dist/"));

async function init(repo: { path: string }): Promise<void> {
  const { exitCode, stderr } = await overseer(repo.path, ["init"]);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
}

describe("init in a plain repository", () => {
  test("creates what the design lists and tells what it wrote", async () => {
    using repo = tempRepo();
    const answer = await overseer(repo.path, ["init", "--json"]);
    const { root, canonicalBranch, isNew, changed } = answer.data<Record<string, unknown>>();
    expect({ root, canonicalBranch, isNew }).toEqual({
      root: repo.path,
      canonicalBranch: "main",
      isNew: true,
    });
    const home = ["config.yaml", "agent-manifest.json", "hooks.json", ".gitignore"].map(
      (file) => `.overseer/${file}`,
    );
    expect((changed as string[]).toSorted()).toEqual([...home, SETTINGS, ".claude/CLAUDE.md"].sort());
    for (const file of [...home, ".overseer/mail.db", ".overseer/sessions.db", ".overseer/specs"]) {
      expect(existsSync(`${repo.path}/${file}`)).toBe(true);
    }
    expect((await overseer(repo.path, ["config", "validate"])).exitCode).toBe(0);
    expect(read(repo, ".claude/CLAUDE.md")).toMatch(/OVERSEER_AGENT_NAME[\s\S]*not for you/);
  });

  test("puts one hook of its own on each event of the orchestrator", async () => {
    using repo = tempRepo();
    await init(repo);
    const hooks = hooksOf(repo);
    expect(Object.keys(hooks).sort()).toEqual([...ORCHESTRATOR_EVENTS].sort());
    for (const groups of Object.values(hooks)) expect(groups.map(isOurs)).toEqual([true]);
  });

  test("lets git see what may be shared and nothing else", async () => {
    using repo = tempRepo();
    await init(repo);
    repo.write(".overseer/specs/login.md", "# Login\n");
    const seen = repo.git("status", "--porcelain", "--untracked-files=all").split("\n").sort();
    const shared = [".gitignore", "agent-manifest.json", "config.yaml", "hooks.json", "specs/login.md"];
    expect(seen).toEqual(
      [...shared.map((file) => `?? .overseer/${file}`), "?? .claude/CLAUDE.md", `?? ${SETTINGS}`].sort(),
    );
  });

  test("twice, it changes nothing: no byte and no time", async () => {
    using repo = tempRepo();
    await init(repo);
    const before = snapshot(repo.path, { hasTimes: true });
    const again = await overseer(repo.path, ["init"]);
    expect(again.stdout).toContain("nothing changed");
    expect((await overseer(repo.path, ["init", "--json"])).data<{ changed: string[] }>().changed).toEqual([]);
    expect(snapshot(repo.path, { hasTimes: true })).toEqual(before);
  });

  test("work lands on origin's default branch, whatever is checked out", async () => {
    using origin = tempRepo({ branch: "trunk" });
    using folder = tempFolder();
    Bun.spawnSync(["git", "clone", "--quiet", origin.path, `${folder.path}/clone`]);
    Bun.spawnSync(["git", "switch", "--quiet", "-c", "feature"], { cwd: `${folder.path}/clone` });
    const answer = await overseer(`${folder.path}/clone`, ["init", "--json"]);
    expect(answer.data<{ canonicalBranch: string }>().canonicalBranch).toBe("trunk");
  });

  test("again after a branch was left, or with a configuration that names it, a detached HEAD is no obstacle", async () => {
    using repo = tempRepo();
    await init(repo);
    repo.git("checkout", "--quiet", "--detach");
    await init(repo);
    expect((await overseer(repo.path, ["status"])).exitCode).toBe(0);

    using other = tempRepo();
    other.git("checkout", "--quiet", "--detach");
    other.write(".overseer/config.yaml", "project:\n  canonicalBranch: main\n");
    const answer = await overseer(other.path, ["init", "--json"]);
    expect(answer.data<{ canonicalBranch: string }>().canonicalBranch).toBe("main");
  });

  test("puts back what is missing and leaves what the user changed", async () => {
    using repo = tempRepo();
    await init(repo);
    const config = `${read(repo, ".overseer/config.yaml")}\ntracker: builtin\n`;
    repo.write(".overseer/config.yaml", config);
    rmSync(`${repo.path}/.overseer/hooks.json`);
    rmSync(`${repo.path}/${SETTINGS}`);
    const answer = await overseer(repo.path, ["init", "--json"]);
    expect(answer.data<{ changed: string[] }>().changed.sort()).toEqual([SETTINGS, ".overseer/hooks.json"]);
    expect(read(repo, ".overseer/config.yaml")).toBe(config);
  });

  test("two at once leave what one would have left", async () => {
    using repo = tempRepo();
    using alone = tempRepo();
    repo.write(SETTINGS, '{"permissions": {"allow": ["Bash(ls)"]}}');
    alone.write(SETTINGS, '{"permissions": {"allow": ["Bash(ls)"]}}');
    await init(alone);
    const answers = await Promise.all([1, 2, 3, 4].map(() => overseer(repo.path, ["init"])));
    expect(answers.map(({ exitCode, stderr }) => ({ exitCode, stderr }))).toEqual(
      Array(4).fill({ exitCode: 0, stderr: "" }),
    );
    const paths = (from: TempRepo) =>
      Object.keys(snapshot(from.path, { except: (path) => /^\.git\/|\.db-/.test(path) }));
    expect(paths(repo)).toEqual(paths(alone));
    for (const file of [SETTINGS, ".claude/CLAUDE.md", ".overseer/hooks.json"]) {
      expect(read(repo, file)).toBe(read(alone, file).replaceAll(alone.path, repo.path));
    }
    for (const groups of Object.values(hooksOf(repo))) expect(groups.filter(isOurs)).toHaveLength(1);
    await overseer(repo.path, ["uninstall"]);
    expect(read(repo, SETTINGS)).toBe('{"permissions": {"allow": ["Bash(ls)"]}}');
  });
});

describe("init in a repository that is lived in", () => {
  /** Every shape of hook that Claude Code takes, on events of ours and on others. */
  const HOOKS = {
    SessionStart: [
      { matcher: "startup|resume", hooks: [{ type: "command", command: "echo hi", timeout: 5 }] },
    ],
    Stop: [
      { hooks: [{ type: "command", command: "say done", async: true }] },
      {
        matcher: "",
        hooks: [
          { type: "prompt", prompt: "Is it done? $ARGUMENTS" },
          { type: "command", command: "x" },
        ],
      },
    ],
    PostToolUse: [
      { matcher: "Write|Edit", hooks: [{ type: "http", url: "http://localhost:1/", headers: { a: "b" } }] },
    ],
    PreToolUse: [{ matcher: "Bash", hooks: [] }],
    UserPromptSubmit: [],
    SomethingNew: [
      { hooks: [{ type: "agent", prompt: "look", model: "m" }], matcher: "*", odd: [1, { two: null }] },
    ],
  };

  function livedIn(): TempRepo {
    const repo = tempRepo({
      files: {
        "README.md": "# test\n",
        "src/a.ts": "a\n",
        ".claude/CLAUDE.md": "# Ours\n\nUse tabs.\n",
        [SETTINGS]: `${JSON.stringify({ model: "opus", hooks: HOOKS, permissions: { allow: ["Bash(ls)"] } }, null, 4)}\n`,
      },
    });
    repo.write("README.md", "# stashed\n");
    repo.git("stash", "--quiet");
    repo.write("src/a.ts", "staged\n");
    repo.git("add", "src/a.ts");
    repo.write("src/a.ts", "staged, then dirty\n");
    repo.write("new.txt", "untracked\n");
    repo.write("staged.txt", "new\n");
    repo.git("add", "staged.txt");
    return repo;
  }

  const status = (repo: TempRepo) =>
    repo.git("--no-optional-locks", "status", "--porcelain", "--branch").split("\n");
  const place = (repo: TempRepo) => ({
    head: repo.git("rev-parse", "HEAD", "--symbolic-full-name", "HEAD"),
    index: Bun.hash(readFileSync(`${repo.path}/.git/index`)),
    stash: repo.git("stash", "list", "--format=%H"),
    refs: repo.git("for-each-ref"),
    config: read(repo, ".git/config"),
    diff: repo.git("--no-optional-locks", "diff", "--cached"),
  });

  test("moves nothing of the user's: HEAD, index, stash, refs, dirty and untracked files", async () => {
    using repo = livedIn();
    const [before, seen] = [place(repo), status(repo)];
    await init(repo);
    expect(place(repo)).toEqual(before);
    const fresh = status(repo).filter((line) => !seen.includes(line));
    expect(fresh.sort()).toEqual([" M .claude/CLAUDE.md", ` M ${SETTINGS}`, "?? .overseer/"]);
    expect(seen.every((line) => status(repo).includes(line))).toBe(true);
  });

  test("keeps every hook of the user's, first and as it was, and every other setting", async () => {
    using repo = livedIn();
    await init(repo);
    const { hooks, ...rest } = JSON.parse(read(repo, SETTINGS));
    expect(rest).toEqual({ model: "opus", permissions: { allow: ["Bash(ls)"] } });
    for (const [event, groups] of Object.entries(HOOKS)) {
      expect(hooks[event].slice(0, groups.length)).toEqual(groups);
      expect(hooks[event].slice(groups.length).map(isOurs)).toEqual(
        ORCHESTRATOR_EVENTS.includes(event) ? [true] : [],
      );
    }
    expect(read(repo, SETTINGS)).toContain('\n    "model"');
    expect(read(repo, ".claude/CLAUDE.md")).toStartWith("# Ours\n\nUse tabs.\n\n<!-- overseer:begin -->\n");
  });

  test("and uninstall gives everything back, byte for byte", async () => {
    using repo = livedIn();
    const before = snapshot(repo.path);
    await init(repo);
    expect((await overseer(repo.path, ["uninstall"])).exitCode).toBe(0);
    expect(snapshot(repo.path)).toEqual(before);
  });

  test("a settings file behind a link is changed where the link leads, and the link stays", async () => {
    using repo = tempRepo();
    using elsewhere = tempFolder();
    const file = elsewhere.write("settings.json", '{"model":"opus"}');
    repo.write(".claude/note", "");
    symlinkSync(file, `${repo.path}/${SETTINGS}`);
    const before = snapshot(repo.path);
    await init(repo);
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ model: "opus", hooks: {} });
    await overseer(repo.path, ["uninstall"]);
    expect(snapshot(repo.path)).toEqual(before);
    expect(readFileSync(file, "utf8")).toBe('{"model":"opus"}');
  });
});

describe("after init", () => {
  test("hooks of another installation of overseer are replaced, not joined", async () => {
    using repo = await tempProject();
    const settings = read(repo, SETTINGS);
    const moved = settings.replaceAll(/'[^']*\/dist\//g, "'/somewhere/else/overseer/dist/");
    expect(moved).not.toBe(settings);
    writeFileSync(`${repo.path}/${SETTINGS}`, moved);
    await init(repo);
    expect(read(repo, SETTINGS)).toBe(settings);
  });

  test("what the user writes around our parts stays where it is, and init has nothing to do", async () => {
    using repo = await tempProject();
    const settings = JSON.parse(read(repo, SETTINGS));
    settings.hooks.Stop.push({ hooks: [{ type: "command", command: "theirs" }] });
    settings.permissions = { allow: ["Bash(ls)"] };
    repo.write(SETTINGS, JSON.stringify(settings));
    repo.write(".claude/CLAUDE.md", `# Above\n\n${read(repo, ".claude/CLAUDE.md")}\n# Below\n`);
    const before = snapshot(repo.path, {
      hasTimes: true,
      except: (path) => path === ".overseer/installed.json",
    });
    await init(repo);
    expect(
      snapshot(repo.path, { hasTimes: true, except: (path) => path === ".overseer/installed.json" }),
    ).toEqual(before);
    const doctor = await overseer(repo.path, ["doctor", "--json"]);
    expect(JSON.parse(doctor.stdout).data.findings).toContainEqual({
      check: "hooks",
      verdict: "ok",
      detail: "in place",
    });
  });
});
