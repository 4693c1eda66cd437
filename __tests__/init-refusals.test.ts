import { describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { overseer, snapshot } from "./support/cli.ts";
import { type TempFolder, tempFolder, tempRepo } from "./support/temp.ts";

const SETTINGS = ".claude/settings.local.json";
const CLAUDE_MD = ".claude/CLAUDE.md";
const BEGIN = "<!-- overseer:begin -->";
const END = "<!-- overseer:end -->";

interface Refusal {
  code: string;
  /** Where init is run; everything below the folder must stay as it was. */
  make: () => { folder: TempFolder; cwd?: string };
}

function repoWith(change: (folder: TempFolder, git: (...args: string[]) => string) => void): Refusal["make"] {
  return () => {
    const repo = tempRepo();
    change(repo, repo.git);
    return { folder: repo };
  };
}

function withFile(name: string, content: string | Uint8Array): Refusal["make"] {
  return repoWith((repo) => {
    writeFileSync(repo.write(name, ""), content);
  });
}

const latin1 = Uint8Array.from(Buffer.from('{"name": "caf\u00e9"}', "latin1"));

const refusals: Record<string, Refusal> = {
  "a folder that is no repository": { code: "not_a_repository", make: () => ({ folder: tempFolder() }) },
  "a repository without a commit": {
    code: "no_commit",
    make() {
      const folder = tempFolder();
      Bun.spawnSync(["git", "init", "--quiet", folder.path]);
      return { folder };
    },
  },
  "a bare repository": {
    code: "bare_repository",
    make() {
      const folder = tempFolder();
      Bun.spawnSync(["git", "init", "--quiet", "--bare", folder.path]);
      return { folder };
    },
  },
  "a bare repository inside of another": {
    code: "bare_repository",
    make() {
      const repo = tempRepo();
      repo.git("clone", "--quiet", "--bare", ".", "inner.git");
      return { folder: repo, cwd: `${repo.path}/inner.git` };
    },
  },
  "a worktree of a bare repository": { code: "bare_repository", make: () => bareWith("hub.git") },
  "a worktree of a bare repository that is called .git": {
    code: "bare_repository",
    make: () => bareWith(".git"),
  },
  "a detached HEAD": {
    code: "config_invalid",
    make: repoWith((_, git) => git("checkout", "--quiet", "--detach")),
  },
  "settings that are cut off": { code: "settings_invalid", make: withFile(SETTINGS, '{"hooks": {') },
  "settings that are empty": { code: "settings_invalid", make: withFile(SETTINGS, "") },
  "settings with comments": { code: "settings_invalid", make: withFile(SETTINGS, "// mine\n{}\n") },
  "settings that are a list": { code: "settings_invalid", make: withFile(SETTINGS, "[]") },
  "settings that are null": { code: "settings_invalid", make: withFile(SETTINGS, "null") },
  "settings that are not UTF-8": { code: "settings_invalid", make: withFile(SETTINGS, latin1) },
  "settings with hooks that are a list": {
    code: "settings_invalid",
    make: withFile(SETTINGS, '{"hooks": []}'),
  },
  "settings with hooks that are null": {
    code: "settings_invalid",
    make: withFile(SETTINGS, '{"hooks": null}'),
  },
  "settings with an event that is not a list": {
    code: "settings_invalid",
    make: withFile(SETTINGS, '{"hooks": {"Stop": {"hooks": []}}}'),
  },
  "settings that are a folder": {
    code: "file_unwritable",
    make: repoWith((repo) => mkdirSync(`${repo.path}/${SETTINGS}`, { recursive: true })),
  },
  "settings behind a link that leads nowhere": {
    code: "file_unwritable",
    make: repoWith((repo) => {
      repo.write(".claude/note", "");
      symlinkSync("../nowhere.json", `${repo.path}/${SETTINGS}`);
    }),
  },
  "a .claude that is a file": { code: "file_unwritable", make: withFile(".claude", "mine") },
  "a .overseer that is a file": { code: "file_unwritable", make: withFile(".overseer", "mine") },
  "a .overseer/logs that is a file": { code: "file_unwritable", make: withFile(".overseer/logs", "mine") },
  "a section without an end": { code: "section_damaged", make: withFile(CLAUDE_MD, `a\n${BEGIN}\nb\n`) },
  "a section without a beginning": { code: "section_damaged", make: withFile(CLAUDE_MD, `a\n${END}\nb\n`) },
  "a section that ends before it begins": {
    code: "section_damaged",
    make: withFile(CLAUDE_MD, `${END}\n${BEGIN}\n`),
  },
  "a section that is there twice": {
    code: "section_damaged",
    make: withFile(CLAUDE_MD, `${BEGIN}\n${END}\n${BEGIN}\n${END}\n`),
  },
  "instructions that are not UTF-8": { code: "settings_invalid", make: withFile(CLAUDE_MD, latin1) },
  "a configuration that is broken": {
    code: "config_invalid",
    make: withFile(".overseer/config.yaml", "agents:\n  maxConcurent: 3\n"),
  },
};

function bareWith(name: string): ReturnType<Refusal["make"]> {
  const folder = tempFolder();
  using repo = tempRepo();
  repo.git("clone", "--quiet", "--bare", ".", `${folder.path}/${name}`);
  repo.git(
    "--git-dir",
    `${folder.path}/${name}`,
    "worktree",
    "add",
    "--quiet",
    `${folder.path}/tree`,
    "-b",
    "tree",
  );
  return { folder, cwd: `${folder.path}/tree` };
}

describe("init refuses, says why and what to do, and changes nothing, in the case of", () => {
  for (const [what, { code, make }] of Object.entries(refusals)) {
    test(what, async () => {
      const { folder, cwd = folder.path } = make();
      using _ = folder;
      const before = snapshot(folder.path, { hasTimes: true });
      const json = await overseer(cwd, ["init", "--json"]);
      expect(json.exitCode).toBe(1);
      const error = json.error();
      expect(error.code).toBe(code);
      expect(error.hint ?? "").not.toBe("");
      const text = await overseer(cwd, ["init"]);
      expect(text).toMatchObject({ exitCode: 1, stdout: "" });
      expect(text.stderr).toStartWith(`overseer: ${error.message}`);
      expect(snapshot(folder.path, { hasTimes: true })).toEqual(before);
    });
  }

  test("a repository that git itself refuses to look at", async () => {
    if (process.getuid?.() !== 0) return; // only root can give a folder away
    using repo = tempRepo();
    Bun.spawnSync(["chown", "-R", "1234", repo.path]);
    const before = snapshot(repo.path);
    const { exitCode, stderr } = await overseer(repo.path, ["init"]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("dubious ownership");
    expect(snapshot(repo.path)).toEqual(before);
  });

  test("a worker: setting up and taking out are not its business", async () => {
    using repo = tempRepo();
    const env = { OVERSEER_AGENT_NAME: "ada", OVERSEER_TOKEN: "x" };
    expect((await overseer(repo.path, ["init", "--json"], { env })).error().code).toBe("not_you");
    expect(repo.git("status", "--porcelain")).toBe("");
    await overseer(repo.path, ["init"]);
    const before = snapshot(repo.path);
    for (const args of [["init"], ["uninstall"], ["doctor", "--fix"]]) {
      expect((await overseer(repo.path, [...args, "--json"], { env })).error().code).toBe("not_you");
    }
    expect(snapshot(repo.path)).toEqual(before);
  });
});

describe("a folder that init has not finished with", () => {
  test("is not a project, although its configuration is there: it may come from a clone", async () => {
    using repo = tempRepo({ files: { ".overseer/config.yaml": "project:\n  canonicalBranch: main\n" } });
    const before = snapshot(repo.path);
    for (const args of [["status"], ["mail", "check"], ["doctor"]]) {
      const error = (await overseer(repo.path, [...args, "--json"])).error();
      expect(error).toMatchObject({ code: "not_initialised", hint: "overseer init" });
    }
    expect(snapshot(repo.path)).toEqual(before);
    expect((await overseer(repo.path, ["init"])).exitCode).toBe(0);
    expect((await overseer(repo.path, ["status"])).exitCode).toBe(0);
  });
});
