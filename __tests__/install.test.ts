import { expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import packageJson from "../package.json" with { type: "json" };
import { cleanEnvironment, overseer } from "./support/cli.ts";
import { tempFolder, tempRepo } from "./support/temp.ts";

const ROOT = join(import.meta.dir, "..");

function run(argv: string[], cwd: string, env: Record<string, string>): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(argv, { cwd, env, stdin: "ignore" });
  if (exitCode === 0) return stdout.toString();
  throw new Error(`${argv.join(" ")} ended with ${exitCode}: ${stderr.toString()}`);
}

/** What a clone would have: the files that git knows, as they are now. */
function copyOfRepository(target: string): void {
  const files = run(
    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    ROOT,
    cleanEnvironment(),
  );
  for (const file of files.split("\0").filter((name) => name !== "" && existsSync(join(ROOT, name)))) {
    mkdirSync(dirname(join(target, file)), { recursive: true });
    cpSync(join(ROOT, file), join(target, file));
  }
}

test("npm install -g from a clone gives an overseer that needs no Bun on the PATH", async () => {
  using folder = tempFolder();
  using repo = tempRepo();
  const [clone, prefix] = [`${folder.path}/overseer`, `${folder.path}/prefix`];
  copyOfRepository(clone);
  expect(existsSync(`${clone}/node_modules`)).toBe(false);
  const cache = run(["npm", "config", "get", "cache"], ROOT, {
    ...cleanEnvironment(),
    HOME: process.env.HOME ?? "/",
  });
  const npm = { ...cleanEnvironment({ npm_config_cache: cache.trim() }), HOME: folder.path };
  run(
    ["npm", "install", "--global", "--prefer-offline", "--no-audit", "--no-fund", `--prefix=${prefix}`, "."],
    clone,
    npm,
  );

  const program = `${prefix}/bin/overseer`;
  const env = { PATH: "/usr/bin:/bin" };
  expect(Bun.which("bun", env)).toBeNull();
  const call = (...args: string[]) => overseer(repo.path, args, { program, env });
  expect(await call("--version")).toMatchObject({
    exitCode: 0,
    stdout: `${packageJson.version}\n`,
    stderr: "",
  });
  expect(await call("init")).toMatchObject({ exitCode: 0, stderr: "" });
  expect((await call("status")).exitCode).toBe(0);
  await call("mail", "send", "--to", "orchestrator", "--subject", "Hello", "--body", "there");

  const settings = await Bun.file(`${repo.path}/.claude/settings.local.json`).json();
  for (const [event, says] of [
    ["SessionStart", "You are the orchestrator"],
    ["UserPromptSubmit", "<overseer-mail"],
  ] as const) {
    const { command } = settings.hooks[event][0].hooks[0];
    expect(command).toContain(clone);
    const { stdout, exitCode } = Bun.spawnSync(["sh", "-c", command], {
      cwd: "/",
      env: cleanEnvironment(env),
      stdin: new TextEncoder().encode('{"session_id":"c-1","source":"startup"}'),
    });
    expect(exitCode).toBe(0);
    expect(stdout.toString()).toContain(says);
  }

  // Another copy of overseer takes over: its hooks replace those of the first.
  expect((await overseer(repo.path, ["doctor"])).stdout).toMatch(/^broken +hooks /m);
  expect((await overseer(repo.path, ["init"])).exitCode).toBe(0);
  const after = JSON.stringify(await Bun.file(`${repo.path}/.claude/settings.local.json`).json());
  expect(after).not.toContain(clone);
  expect(after.match(/orchestrator SessionStart/g)).toHaveLength(1);
  expect((await call("uninstall")).exitCode).toBe(0);
  expect(repo.git("status", "--porcelain")).toBe("");
}, 120_000);
