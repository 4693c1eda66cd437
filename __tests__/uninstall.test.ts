import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { type Answer, overseer, snapshot, tempProject } from "./support/cli.ts";
import { type TempRepo, tempFolder, tempRepo } from "./support/temp.ts";

const SETTINGS = ".claude/settings.local.json";
const CLAUDE_MD = ".claude/CLAUDE.md";

const read = (repo: { path: string }, file: string) => readFileSync(`${repo.path}/${file}`, "utf8");

async function init(repo: { path: string }): Promise<void> {
  const { exitCode, stderr } = await overseer(repo.path, ["init"]);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
}

async function uninstall(repo: { path: string }): Promise<{ restored: string[]; kept: string[] }> {
  return (await overseer(repo.path, ["uninstall", "--json"])).data();
}

describe("uninstall gives back, byte for byte,", () => {
  const settings: Record<string, string> = {
    "settings with tabs": '{\n\t"model": "opus",\n\t"hooks": {}\n}\n',
    "settings with CRLF": '{\r\n  "model": "opus"\r\n}\r\n',
    "settings without a final newline": '{\n  "model": "opus"\n}',
    "settings with a byte order mark": '\ufeff{"model": "opus"}\n',
    "settings with odd indentation": '{ "a":1,\n       "b" : [ 1,2,\n3 ],"hooks":{ "Stop":[ ] } }\n\n\n',
    "settings with numbers and escapes": '{"a": 1.0, "b": 1e3, "c": "\\u00e9\\/", "d": 12345678901234567890}',
    "settings that are an empty object": "{}",
  };
  const instructions: Record<string, string> = {
    "instructions that are empty": "",
    "instructions of one newline": "\n",
    "instructions without a final newline": "# Ours",
    "instructions with CRLF": "# Ours\r\n\r\nUse tabs.\r\n",
    "instructions that end in empty lines": "# Ours\n\n\n\n",
    "instructions with a byte order mark": "\ufeff# Ours\n",
    "instructions of somebody else's marks": "<!-- other:begin -->\nx\n<!-- other:end -->\n",
  };
  const cases = [
    ...Object.entries(settings).map(([what, content]) => ({ what, file: SETTINGS, content })),
    ...Object.entries(instructions).map(([what, content]) => ({ what, file: CLAUDE_MD, content })),
  ];
  for (const { what, file, content } of cases) {
    test(what, async () => {
      using repo = tempRepo();
      repo.write(file, content, 0o600);
      const before = snapshot(repo.path);
      await init(repo);
      await init(repo);
      expect(read(repo, file)).not.toBe(content);
      await uninstall(repo);
      expect(snapshot(repo.path)).toEqual(before);
    });
  }

  test("a repository that had none of the files, and says what it restored", async () => {
    using repo = tempRepo();
    const before = snapshot(repo.path);
    await init(repo);
    expect(await uninstall(repo)).toEqual({ restored: [SETTINGS, CLAUDE_MD], kept: [] });
    expect(snapshot(repo.path)).toEqual(before);
  });

  test("a repository whose .claude is a link", async () => {
    using repo = tempRepo();
    using elsewhere = tempFolder();
    symlinkSync(elsewhere.path, `${repo.path}/.claude`);
    const before = snapshot(repo.path);
    await init(repo);
    await uninstall(repo);
    expect(snapshot(repo.path)).toEqual(before);
    expect(snapshot(elsewhere.path)).toEqual({});
  });

  test("everything, also after work was done with it", async () => {
    using repo = tempRepo();
    const before = snapshot(repo.path);
    await init(repo);
    await overseer(repo.path, ["task", "create", "x"]);
    await overseer(repo.path, ["mail", "send", "--to", "human", "--subject", "x"]);
    await overseer(repo.path, ["log", "SessionStart"], { stdin: '{"session_id":"c-1"}' });
    await uninstall(repo);
    expect(snapshot(repo.path)).toEqual(before);
    expect((await overseer(repo.path, ["status", "--json"])).error().code).toBe("not_initialised");
  });
});

describe("what the user changed since stays", () => {
  test("in the settings: only our hooks go", async () => {
    using repo = tempRepo();
    repo.write(
      SETTINGS,
      '{"model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}]}]}}',
    );
    await init(repo);
    const changed = JSON.parse(read(repo, SETTINGS));
    changed.permissions = { allow: ["Bash(ls)"] };
    changed.hooks.Stop.push({ hooks: [{ type: "command", command: "b" }] });
    changed.hooks.PreToolUse = [{ matcher: "Bash", hooks: [{ type: "command", command: "c" }] }];
    changed.hooks.SessionEnd[0].hooks.unshift({ type: "command", command: "d" });
    repo.write(SETTINGS, JSON.stringify(changed, null, 2));
    await uninstall(repo);
    const command = (text: string) => ({ type: "command", command: text });
    expect(JSON.parse(read(repo, SETTINGS))).toEqual({
      model: "opus",
      permissions: { allow: ["Bash(ls)"] },
      hooks: {
        Stop: [{ hooks: [command("a")] }, { hooks: [command("b")] }],
        PreToolUse: [{ matcher: "Bash", hooks: [command("c")] }],
        SessionEnd: [{ hooks: [command("d")] }],
      },
    });
  });

  test("in the instructions: only our section goes, wherever it is now", async () => {
    using repo = tempRepo();
    repo.write(CLAUDE_MD, "# Ours\n");
    await init(repo);
    const section = read(repo, CLAUDE_MD).slice("# Ours\n\n".length);
    repo.write(CLAUDE_MD, `# New\n\n${section}\n# Ours, changed\n`);
    await uninstall(repo);
    expect(read(repo, CLAUDE_MD)).toBe("# New\n\n# Ours, changed\n");
  });

  test("in instructions that an editor turned into CRLF", async () => {
    using repo = tempRepo();
    repo.write(CLAUDE_MD, "# Ours\n");
    await init(repo);
    repo.write(CLAUDE_MD, read(repo, CLAUDE_MD).replaceAll("\n", "\r\n"));
    await uninstall(repo);
    expect(read(repo, CLAUDE_MD)).toBe("# Ours\r\n");
  });

  test("what the user took out does not come back", async () => {
    using repo = tempRepo();
    repo.write(SETTINGS, '{"model": "opus"}');
    repo.write(CLAUDE_MD, "# Ours\n");
    await init(repo);
    const { model: _, ...rest } = JSON.parse(read(repo, SETTINGS));
    repo.write(SETTINGS, JSON.stringify(rest));
    repo.write(CLAUDE_MD, read(repo, CLAUDE_MD).slice("# Ours\n\n".length));
    await uninstall(repo);
    expect(JSON.parse(read(repo, SETTINGS))).toEqual({});
    expect(read(repo, CLAUDE_MD)).toBe("");
  });

  test("a file that was taken away stays away, and the hooks that are left go", async () => {
    using repo = tempRepo();
    repo.write(SETTINGS, '{"model": "opus"}');
    repo.write(CLAUDE_MD, "# Ours\n");
    await init(repo);
    rmSync(`${repo.path}/${CLAUDE_MD}`);
    expect((await uninstall(repo)).restored).toEqual([SETTINGS]);
    expect(existsSync(`${repo.path}/${CLAUDE_MD}`)).toBe(false);
    expect(read(repo, SETTINGS)).toBe('{"model": "opus"}');
  });

  test("settings that cannot be read any more are an error, and nothing is changed", async () => {
    using repo = tempRepo();
    await init(repo);
    repo.write(SETTINGS, "{ broken");
    const before = snapshot(repo.path, { except: (path) => /\.db/.test(path) });
    const answer = await overseer(repo.path, ["uninstall", "--json"]);
    expect(answer.error()).toMatchObject({ code: "settings_invalid" });
    expect(snapshot(repo.path, { except: (path) => /\.db/.test(path) })).toEqual(before);
  });

  test("without the record of what was there before, our parts still go", async () => {
    using repo = tempRepo();
    repo.write(SETTINGS, '{\n  "model": "opus"\n}\n');
    repo.write(CLAUDE_MD, "# Ours\n");
    await init(repo);
    writeFileSync(`${repo.path}/.overseer/installed.json`, "{ broken");
    await uninstall(repo);
    expect(read(repo, SETTINGS)).toBe('{\n  "model": "opus"\n}\n');
    expect(read(repo, CLAUDE_MD)).toBe("# Ours\n");
  });

  test("below .overseer: an edited configuration, specs and whatever else the user put there, and it says so", async () => {
    using repo = await tempProject();
    const config = `${read(repo, ".overseer/config.yaml")}\ntracker: builtin\n`;
    repo.write(".overseer/config.yaml", config);
    repo.write(".overseer/specs/login.md", "# Login\n");
    repo.write(".overseer/specs/deep/more.md", "# More\n");
    repo.write(".overseer/setup.sh", "npm ci\n");
    repo.write(".overseer/notes/todo.md", "- x\n");
    const kept = ["config.yaml", "notes/todo.md", "setup.sh", "specs/deep/more.md", "specs/login.md"];
    const answer = await overseer(repo.path, ["uninstall"]);
    for (const file of kept) expect(answer.stdout).toContain(`.overseer/${file}`);
    const files = Object.entries(snapshot(`${repo.path}/.overseer`)).filter(
      ([, what]) => !what.endsWith("folder"),
    );
    expect(files.map(([file]) => file).sort()).toEqual(kept);
    expect(read(repo, ".overseer/config.yaml")).toBe(config);

    expect((await overseer(repo.path, ["status", "--json"])).error().code).toBe("not_initialised");
    await init(repo);
    expect(read(repo, ".overseer/config.yaml")).toBe(config);
  });
});

describe("uninstall refuses, and changes nothing,", () => {
  async function refused(repo: TempRepo): Promise<Answer> {
    const before = snapshot(repo.path, { hasTimes: true, except: (path) => /\.db-/.test(path) });
    const answer = await overseer(repo.path, ["uninstall", "--json"]);
    expect(snapshot(repo.path, { hasTimes: true, except: (path) => /\.db-/.test(path) })).toEqual(before);
    expect(answer.error().code).toBe("workers_present");
    expect(answer.error().hint ?? "").not.toBe("");
    return answer;
  }

  test("while a worker lives", async () => {
    using repo = await tempProject();
    await repo.register({ name: "ada" });
    await overseer(repo.path, ["status"]);
    expect((await refused(repo)).error().message).toContain("ada");
    await overseer(repo.path, ["log", "session-end", "--agent", "ada"], { stdin: '{"session_id":"c"}' });
    await uninstall(repo);
  });

  test("while there is a worktree", async () => {
    using repo = await tempProject();
    const worktree = `${repo.path}/.overseer/worktrees/ada`;
    repo.git("worktree", "add", "--quiet", worktree);
    const { message, hint } = (await refused(repo)).error();
    expect(message).toContain("ada");
    expect(hint).toMatch(
      /--force, clean saves .* under refs\/overseer\/rescue\/, which stay \(git for-each-ref /,
    );
    repo.git("worktree", "remove", worktree);
    await uninstall(repo);
  });

  test("but whatever else lies where worktrees are is kept, and no obstacle", async () => {
    using repo = await tempProject();
    mkdirSync(`${repo.path}/.overseer/worktrees/empty`, { recursive: true });
    repo.write(".overseer/worktrees/notes", "a person's\n");
    repo.write(".overseer/worktrees/Not A Name/file", "a person's, too\n");
    const kept = [".overseer/worktrees/Not A Name/file", ".overseer/worktrees/notes"];
    expect((await uninstall(repo)).kept.toSorted()).toEqual(kept);
    expect(kept.map((file) => existsSync(`${repo.path}/${file}`))).toEqual([true, true]);
  });

  test("but a configuration that nobody can read is no obstacle", async () => {
    using repo = await tempProject();
    repo.write(".overseer/config.yaml", "tmux: [\n");
    expect((await uninstall(repo)).kept).toEqual([".overseer/config.yaml"]);
  });

  test("but the person's own Claude Code session is no obstacle", async () => {
    using repo = await tempProject();
    await overseer(repo.path, ["log", "SessionStart"], { stdin: '{"session_id":"c-1"}' });
    expect((await uninstall(repo)).kept).toEqual([]);
  });

  test("where there is nothing to take out", async () => {
    using repo = tempRepo();
    const before = snapshot(repo.path);
    expect((await overseer(repo.path, ["uninstall", "--json"])).error().code).toBe("not_initialised");
    expect(snapshot(repo.path)).toEqual(before);
  });
});
