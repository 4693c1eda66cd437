import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import {
  cleanEnvironment,
  OVERSEER,
  onTerminal,
  type TempProject,
  tempProject,
  UNPRINTABLE,
} from "./support/cli.ts";

const ESCAPE = "\u001b";

let project: TempProject;
beforeAll(async () => {
  project = await tempProject();
  await project.register({ name: "ada" });
  await project.overseer(["task", "create", "Add a login form"]);
  await project.overseer(["mail", "send", "--to", "human", "--subject", "Hello"]);
});
afterAll(() => project.remove());

test("control characters in what was typed do not reach the terminal", async () => {
  const typed = `${ESCAPE}[31mred\u009b1m`;
  for (const args of [[typed], ["status", `--${typed}`], ["task", "show", typed], ["mail", "read", typed]]) {
    const { stderr } = await project.overseer(args);
    expect(stderr).toMatch(/^overseer: /);
    expect(stderr).not.toMatch(UNPRINTABLE);
  }
});

describe("colour", () => {
  const COMMANDS_WITH_COLOUR = ["status", "events", "task list", "mail list", "config show", "doctor"];

  test("a terminal gets it, and only as whole escape sequences", async () => {
    for (const words of COMMANDS_WITH_COLOUR) {
      const seen = await onTerminal(project.path, words);
      expect(seen).toContain(`${ESCAPE}[`);
      expect(seen).not.toContain("\ufffd");
    }
  });

  test("NO_COLOR, a dumb terminal and --json get none", async () => {
    for (const words of COMMANDS_WITH_COLOUR) {
      expect(await onTerminal(project.path, words, { NO_COLOR: "1" })).not.toContain(ESCAPE);
    }
    expect(await onTerminal(project.path, "status", { TERM: "dumb" })).not.toContain(ESCAPE);
    expect(await onTerminal(project.path, "status --json")).not.toContain(ESCAPE);
  });

  test("each stream is judged by itself", async () => {
    const file = `${project.path}/said`;
    expect(await onTerminal(project.path, "nonsense")).toContain(`${ESCAPE}[31moverseer:`);
    expect(await onTerminal(project.path, `nonsense > ${file}`)).toContain(`${ESCAPE}[31moverseer:`);
    await onTerminal(project.path, `nonsense 2> ${file}`);
    expect(readFileSync(file, "utf8")).toStartWith("overseer: unknown command");
    await onTerminal(project.path, `status > ${file}`);
    expect(readFileSync(file, "utf8")).not.toContain(ESCAPE);
  });
});

describe("a reader that goes away", () => {
  const pipe = (words: string) =>
    Bun.spawnSync(["bash", "-c", `set -o pipefail; "$0" ${words}`, OVERSEER], {
      cwd: project.path,
      env: cleanEnvironment(),
    });

  test("overseer events | head -1 ends quietly", async () => {
    await project.open(async ({ ledger }) => {
      const data = { text: "x".repeat(300) };
      await ledger.appendEvents(Array.from({ length: 3_000 }, (_, at) => ({ at, type: "mail.sent", data })));
    });
    const { exitCode, stdout, stderr } = pipe("events --limit 3000 --json | head -c 100");
    expect({ exitCode, stderr: stderr.toString() }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout.toString()).toHaveLength(100);
    expect(pipe("events --limit 3000 | head -1").exitCode).toBe(0);
  });

  test("a disk that is full is a failure", () => {
    expect(pipe("status > /dev/full").exitCode).toBe(1);
  });
});
