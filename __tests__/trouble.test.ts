import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { OVERSEER, overseer, tempProject } from "./support/cli.ts";

const send = ["mail", "send", "--to", "human", "--subject", "Hello", "--body", "there", "--json"];

test("a disk that is full in the middle of a file leaves the user's file as it was", async () => {
  await using project = await tempProject({ files: { ".claude/CLAUDE.md": "# Ours\n".repeat(30_000) } });
  const file = `${project.path}/.claude/CLAUDE.md`;
  const damaged = readFileSync(file, "utf8").replace("You are the orchestrator", "You were the orchestrator");
  writeFileSync(file, damaged);
  const limited = `trap '' XFSZ; ulimit -f 100; exec '${OVERSEER}' doctor --fix`;
  const child = Bun.spawnSync(["bash", "-c", limited], {
    cwd: project.path,
    env: { PATH: process.env.PATH ?? "" },
  });
  expect(child.exitCode).toBe(1);
  expect(readFileSync(file, "utf8")).toBe(damaged);
  expect(JSON.parse(readFileSync(`${project.path}/.overseer/installed.json`, "utf8"))).toBeObject();
});

test("init keeps the mode of the files it adds to", async () => {
  await using project = await tempProject();
  const file = `${project.path}/.claude/CLAUDE.md`;
  Bun.spawnSync(["chmod", "666", file]);
  writeFileSync(file, "# Ours\n");
  await overseer(project.path, ["doctor", "--fix"]);
  expect(readFileSync(file, "utf8")).toContain("overseer:begin");
  expect((statSync(file).mode & 0o777).toString(8)).toBe("666");
});

test("mail that was sent while the ledger was locked was sent, once, and says so", async () => {
  await using project = await tempProject();
  const ledger = new Database(`${project.path}/.overseer/sessions.db`);
  ledger.run("BEGIN IMMEDIATE");
  const sent = await overseer(project.path, send);
  ledger.run("ROLLBACK");
  ledger.close();
  expect(sent.exitCode).toBe(0);
  const listed = await overseer(project.path, ["mail", "list", "--json"]);
  expect(listed.data<{ messages: unknown[] }>().messages).toHaveLength(1);
  expect(readFileSync(`${project.path}/.overseer/logs/journal.ndjson`, "utf8")).toContain("there");
});

test("an answer that is refused leaves the message unread", async () => {
  await using project = await tempProject();
  const { messages } = (await overseer(project.path, send)).data<{ messages: { id: string }[] }>();
  const id = messages[0]?.id ?? "";
  const refused = await overseer(project.path, ["mail", "reply", id, "--body", "-"], {
    stdin: "x".repeat(70_000),
  });
  expect(refused.exitCode).toBe(64);
  const unread = await overseer(project.path, ["mail", "list", "--unread", "--json"]);
  expect(unread.data<{ messages: { id: string }[] }>().messages.map((message) => message.id)).toEqual([id]);
});

test("looking asks who looks: no list for whoever has a token that nobody knows", async () => {
  await using project = await tempProject();
  await overseer(project.path, send);
  for (const words of [
    ["mail", "list"],
    ["task", "list"],
    ["task", "ready"],
    ["events"],
    ["config", "show"],
  ]) {
    const { exitCode, stdout } = await overseer(project.path, [...words, "--json"], {
      env: { OVERSEER_TOKEN: "x" },
    });
    expect({ words, exitCode, code: JSON.parse(stdout).error.code }).toEqual({
      words,
      exitCode: 1,
      code: "token_unknown",
    });
  }
});

test("uninstall leaves a backup that the user made, and a configuration with another branch", async () => {
  await using project = await tempProject();
  const config = `${project.path}/.overseer/config.yaml`;
  const edited = readFileSync(config, "utf8").replace(
    'canonicalBranch: "main"',
    'canonicalBranch: "develop"',
  );
  writeFileSync(config, edited);
  writeFileSync(`${project.path}/.overseer/mail.db.my-backup`, "mine");
  await overseer(project.path, ["uninstall"]);
  expect(readFileSync(config, "utf8")).toBe(edited);
  expect(readFileSync(`${project.path}/.overseer/mail.db.my-backup`, "utf8")).toBe("mine");
  expect(existsSync(`${project.path}/.overseer/mail.db`)).toBe(false);
});

test("a list of dependencies that names nothing is a mistake, not a task without any", async () => {
  await using project = await tempProject();
  for (const flag of ["--depends", "--files"]) {
    const { exitCode, stderr } = await overseer(project.path, ["task", "create", "x", flag, ""]);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 64,
      stderr: expect.stringContaining(`${flag} names nothing`),
    });
  }
});
