import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { cleanEnvironment, killAfter, OVERSEER, overseer, snapshot } from "./support/cli.ts";
import { type TempRepo, tempFolder, tempRepo } from "./support/temp.ts";
import { until } from "./support/until.ts";

const SETTINGS = ".claude/settings.local.json";

async function initIn(cwd: string): Promise<string> {
  return (await overseer(cwd, ["init", "--json"])).data<{ root: string }>().root;
}

function git(cwd: string, ...args: string[]): void {
  const env = cleanEnvironment();
  const { exitCode, stderr } = Bun.spawnSync(["git", "-c", "protocol.file.allow=always", ...args], {
    cwd,
    env,
  });
  if (exitCode !== 0) throw new Error(`git ${args.join(" ")}: ${stderr.toString()}`);
}

describe("init finds the main checkout", () => {
  test("from a subfolder, and from inside .git", async () => {
    using repo = tempRepo({ files: { "src/deep/a.ts": "a\n" } });
    expect(await initIn(`${repo.path}/src/deep`)).toBe(repo.path);
    expect(await initIn(`${repo.path}/.git`)).toBe(repo.path);
    expect(existsSync(`${repo.path}/src/deep/.overseer`)).toBe(false);
  });

  test("from a linked worktree, in which nothing changes", async () => {
    using repo = tempRepo();
    using folder = tempFolder();
    repo.git("worktree", "add", "--quiet", `${folder.path}/tree`);
    mkdirSync(`${folder.path}/tree/sub`);
    const before = snapshot(folder.path);
    expect(await initIn(`${folder.path}/tree/sub`)).toBe(repo.path);
    expect(snapshot(folder.path)).toEqual(before);
    expect((await overseer(`${folder.path}/tree`, ["status"])).exitCode).toBe(0);
  });

  test("of a submodule, which is a repository of its own, also from a worktree of it", async () => {
    using part = tempRepo();
    using whole = tempRepo();
    using folder = tempFolder();
    git(whole.path, "submodule", "--quiet", "add", part.path, "part");
    git(`${whole.path}/part`, "worktree", "add", "--quiet", `${folder.path}/tree`, "-b", "tree");
    const before = snapshot(`${whole.path}/.git`, { except: (path) => /(^|\/)index$/.test(path) });
    expect(await initIn(`${whole.path}/part`)).toBe(`${whole.path}/part`);
    expect(await initIn(`${folder.path}/tree`)).toBe(`${whole.path}/part`);
    expect(existsSync(`${whole.path}/.overseer`)).toBe(false);
    expect(await initIn(whole.path)).toBe(whole.path);
    expect(snapshot(`${whole.path}/.git`, { except: (path) => /(^|\/)index$/.test(path) })).toEqual(before);
  });

  test("of a repository whose git folder lies elsewhere", async () => {
    using folder = tempFolder();
    git(folder.path, "init", "--quiet", "--separate-git-dir", `${folder.path}/store`, `${folder.path}/work`);
    git(
      `${folder.path}/work`,
      "-c",
      "user.name=T",
      "-c",
      "user.email=t@e",
      "commit",
      "--quiet",
      "--allow-empty",
      "-m",
      "x",
    );
    expect(await initIn(`${folder.path}/work`)).toBe(`${folder.path}/work`);
  });
});

describe("the hooks run, through sh as Claude Code runs them, in a path", () => {
  const names = [
    "with spaces",
    'it\'s "quoted"',
    "naïve-日本-🐙",
    "$HOME and $(touch x) `touch y`",
    "-rf",
    "back\\slash",
    "semi;colon&amp",
    "*?[a]",
  ];
  for (const name of names) {
    test(JSON.stringify(name), async () => {
      using folder = tempFolder();
      const root = `${folder.path}/${name}`;
      mkdirSync(root);
      git(root, "init", "--quiet", "--initial-branch=main");
      git(root, "-c", "user.name=T", "-c", "user.email=t@e", "commit", "--quiet", "--allow-empty", "-m", "x");
      expect(await initIn(root)).toBe(root);
      await overseer(root, ["mail", "send", "--to", "orchestrator", "--subject", "Hello", "--body", "there"]);

      const run = async (event: string) => {
        const settings = JSON.parse(readFileSync(`${root}/${SETTINGS}`, "utf8"));
        const child = Bun.spawn(["sh", "-c", settings.hooks[event][0].hooks[0].command], {
          cwd: "/",
          env: cleanEnvironment(),
          stdin: new TextEncoder().encode(JSON.stringify({ session_id: "c-1", source: "startup" })),
          stdout: "pipe",
          stderr: "pipe",
        });
        const said = await new Response(child.stdout).text();
        expect(await new Response(child.stderr).text()).toBe("");
        expect(await child.exited).toBe(0);
        return said;
      };
      expect(await run("SessionStart")).toContain("You are the orchestrator");
      expect(await run("UserPromptSubmit")).toMatch(/<overseer-mail .*\nthere\n/);
      expect((await overseer(root, ["events"])).stdout).toContain("session.started orchestrator");
      expect(existsSync(`${root}/.overseer/logs/errors.log`)).toBe(false);
      expect((await overseer(root, ["config", "show"])).stdout).toMatch(/^project\.name .* file$/m);
      expect((await overseer(root, ["uninstall"])).exitCode).toBe(0);
      expect(Object.keys(snapshot(folder.path, { except: (path) => path.includes("/.git") }))).toEqual([
        name,
      ]);
    });
  }
});

describe("an init that is killed", () => {
  const SETTINGS_BEFORE =
    '{ "model": "opus",\n\t"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}]}]}}';

  function repository(): TempRepo {
    return tempRepo({
      files: { [SETTINGS]: SETTINGS_BEFORE, ".claude/CLAUDE.md": "# Ours", "a.txt": "a\n" },
    });
  }

  async function killedInit(repo: TempRepo, ms: number): Promise<void> {
    const child = Bun.spawn([OVERSEER, "init"], {
      cwd: repo.path,
      env: cleanEnvironment(),
      stdout: "ignore",
      stderr: "ignore",
    });
    await killAfter(child, ms);
  }

  /** The moments at which init has just made this: from nothing at all to everything. */
  async function killedWhen(repo: TempRepo, path: string): Promise<void> {
    const child = Bun.spawn([OVERSEER, "init"], {
      cwd: repo.path,
      env: cleanEnvironment(),
      stdout: "ignore",
      stderr: "ignore",
    });
    const isThere = () => existsSync(`${repo.path}/${path}`) || child.exitCode !== null;
    await until(`${path} is there`, isThere, { everyMs: 0 });
    await killAfter(child, 0);
  }

  const moments = [
    ...[".overseer", ".overseer/.gitignore", ".overseer/config.yaml", ".overseer/hooks.json"],
    ...[".overseer/compiled.json", ".overseer/sessions.db", ".overseer/mail.db", ".overseer/installed.json"],
  ];

  test("leaves nothing behind after uninstall, whenever it was", async () => {
    using repo = repository();
    const before = snapshot(repo.path);
    const cut: (() => Promise<void>)[] = [
      ...moments.map((path) => () => killedWhen(repo, path)),
      ...Array.from({ length: 10 }, (_, n) => () => killedInit(repo, 20 + n * 6)),
    ];
    for (const kill of cut) {
      await kill();
      if (existsSync(`${repo.path}/.overseer`)) {
        const { exitCode, stderr } = await overseer(repo.path, ["uninstall"]);
        expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      }
      expect(snapshot(repo.path)).toEqual(before);
    }
  });

  test("is finished by the next one", async () => {
    using whole = repository();
    await initIn(whole.path);
    const paths = (repo: TempRepo) =>
      Object.keys(snapshot(repo.path, { except: (path) => /^\.git\/|\.db-/.test(path) }));
    for (const path of moments) {
      using repo = repository();
      await killedWhen(repo, path);
      await initIn(repo.path);
      expect(paths(repo)).toEqual(paths(whole));
      for (const file of [SETTINGS, ".claude/CLAUDE.md", ".overseer/config.yaml"]) {
        const text = readFileSync(`${whole.path}/${file}`, "utf8").replaceAll(whole.path, repo.path);
        const names = [whole.path, repo.path].map((at) => at.slice(at.lastIndexOf("/") + 1)) as [
          string,
          string,
        ];
        expect(readFileSync(`${repo.path}/${file}`, "utf8")).toBe(text.replaceAll(...names));
      }
      expect((await overseer(repo.path, ["status"])).exitCode).toBe(0);
      await overseer(repo.path, ["uninstall"]);
      expect(readFileSync(`${repo.path}/${SETTINGS}`, "utf8")).toBe(SETTINGS_BEFORE);
    }
  });

  test("half-written files beside the user's own go with the next init, but not those of one that is at work", async () => {
    using repo = repository();
    const dead = Bun.spawnSync(["sh", "-c", "echo $$"]).stdout.toString().trim();
    repo.write(`${SETTINGS}.overseer-${dead}`, "{");
    repo.write(`.overseer/config.yaml.overseer-${dead}`, "pro");
    repo.write(`${SETTINGS}.overseer-${process.pid}`, "{");
    repo.write(`${SETTINGS}.overseer-notes`, "mine");
    await initIn(repo.path);
    const left = Object.keys(snapshot(repo.path)).filter((path) => path.includes(".overseer-"));
    expect(left).toEqual([`${SETTINGS}.overseer-${process.pid}`, `${SETTINGS}.overseer-notes`]);
  });
});
