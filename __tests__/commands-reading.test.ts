import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import type { Style } from "../src/cli/output.ts";
import { statusText } from "../src/cli/status-text.ts";
import { type Registration, registerWorker } from "../src/flows/register.ts";
import { readStatus } from "../src/flows/status.ts";
import type { Session } from "../src/store/contract.ts";
import {
  cleanEnvironment,
  isBesideDatabase,
  OVERSEER,
  snapshot,
  type TempProject,
  tempProject,
} from "./support/cli.ts";
import { until } from "./support/until.ts";

const same = (words: string) => words;
const PLAIN: Style = { bold: same, dim: same, red: same, green: same, yellow: same, cyan: same };

let project: TempProject;
beforeEach(async () => {
  project = await tempProject();
});
afterEach(() => project.remove());

async function data<T>(...args: string[]): Promise<T> {
  return (await project.overseer([...args, "--json"])).data<T>();
}

async function text(...args: string[]): Promise<string> {
  const { stdout, exitCode, stderr } = await project.overseer(args);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  return stdout;
}

async function createTask(title: string): Promise<string> {
  return (await data<{ task: { id: string } }>("task", "create", title)).task.id;
}

/** A worker's row that has come to its end. */
function ended(
  registration: Partial<Registration>,
  state: "stopped" | "failed" | "zombie",
): Promise<Session> {
  return project.open(async (opened) => {
    const worker = { name: "ada", capability: "builder", ...registration };
    const { session } = await registerWorker(opened, worker);
    const at = opened.clock.now();
    const event = { at, type: "session.stopped" as const, agent: session.name, sessionId: session.id };
    await opened.ledger.endSession(session.id, { state, cause: "for a test", at }, event);
    return session;
  });
}

function log(event: string, agent: string, payload: Record<string, unknown> = {}) {
  const stdin = JSON.stringify({ session_id: `c-${agent}`, ...payload });
  return project.overseer(["log", event, "--agent", agent], { stdin });
}

describe("status", () => {
  test("has the documented JSON, times in ISO 8601", async () => {
    const taskId = await createTask("Form");
    const worktree = `${project.path}/.overseer/worktrees/ada`;
    await project.register({ name: "lea", capability: "lead" });
    await project.register({
      name: "ada",
      taskId,
      parent: "lea",
      depth: 1,
      worktree,
      branch: "overseer/ada/x",
    });
    await project.overseer(["mail", "send", "--to", "ada,human", "--subject", "x"]);
    const status = await data<Record<string, unknown> & { agents: Record<string, unknown>[] }>("status");
    expect(status).toMatchObject({
      tasks: { todo: 0, queued: 1, in_progress: 0, blocked: 0, done: 0, cancelled: 0 },
      mail: { unread: 1 },
      merge: { pending: 0 },
      goals: { active: 0, total: 0 },
      watch: { lastTickAt: null, degraded: false },
      auto: null,
      supervise: null,
    });
    const agent = status.agents.find(({ name }) => name === "ada") ?? {};
    const { startedAt, lastActivityAt, cause, ...rest } = agent;
    expect(rest).toEqual({
      name: "ada",
      capability: "builder",
      state: "booting",
      reason: null,
      reasonUntil: null,
      taskId,
      branch: "overseer/ada/x",
      worktree,
      pid: null,
      parent: "lea",
      depth: 1,
      unread: 1,
      title: "Form",
      isLost: false,
      hasWorktree: false,
      ahead: null,
      behind: null,
      cost: null,
      tokens: { input: 0, output: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0 },
    });
    for (const time of [startedAt, lastActivityAt])
      expect(new Date(String(time)).toISOString()).toBe(String(time));
    expect(cause).toBe("registered");
  });

  test("shows agents under their parents, with state, reason and what they wait for", async () => {
    await project.register({ name: "lea", capability: "lead" });
    await project.register({
      name: "ada",
      parent: "lea",
      depth: 1,
      taskId: await createTask("Form"),
      branch: "overseer/ada/t-1",
    });
    const long = "A title that says at great length what it is about";
    await project.register({ name: "bob", taskId: await createTask(long) });
    await log("permission", "ada", { tool_name: "Bash" });
    await project.overseer(["mail", "send", "--to", "ada", "--subject", "x"]);
    const shown = await text("status");
    expect(shown).toMatch(/^lea {2,}lead +booting/m);
    expect(shown).toMatch(/^ {2}ada +builder +waiting: permission .* t-\w+ Form +1 unread$/m);
    expect(shown).toMatch(/^bob .* t-\w+ A title that says at great length what …$/m);
    expect(shown.indexOf("lea")).toBeLessThan(shown.indexOf("  ada"));
    expect(shown).not.toMatch(/ $/m);
  });

  test("says what to do when nothing has begun, and what is unread for whom", async () => {
    expect(await text("status")).toContain("No workers.");
    expect(await text("status")).toContain("overseer task create");
    await project.overseer(["mail", "send", "--to", "human,orchestrator", "--subject", "x"]);
    const shown = await text("status");
    expect(shown).toMatch(/1 unread for you: overseer mail check/);
    expect(shown).toMatch(/1 for orchestrator/);
  });

  test("an agent that ended stays for a while and no longer counts as live", async () => {
    await project.register({ name: "ada" });
    await log("session-end", "ada", { reason: "exit" });
    const { agents } = await data<{ agents: { state: string }[] }>("status");
    expect(agents.map(({ state }) => state)).toEqual(["stopped"]);
  });

  test("says what to type next in a line for each kind of trouble, and marks what is gone or cleaned", async () => {
    const worktree = (name: string) => `${project.path}/.overseer/worktrees/${name}`;
    const work = async (name: string) => ({ name, taskId: await createTask(`Work of ${name}`) });
    await project.register({ ...(await work("asks")), worktree: worktree("asks") });
    await log("permission", "asks", { tool_name: "Bash" });
    await project.register({ ...(await work("homeless")), worktree: worktree("homeless") });
    for (const name of ["asks", "halted", "dead"]) mkdirSync(worktree(name), { recursive: true });
    await ended({ ...(await work("halted")), worktree: worktree("halted") }, "stopped");
    await ended({ ...(await work("dead")), worktree: worktree("dead") }, "zombie");
    await ended({ ...(await work("cleaned")), branch: "overseer/cleaned/t-1" }, "stopped");
    const failed = await ended({ ...(await work("failed")), branch: "overseer/failed/t-1" }, "failed");
    await project.open(({ ledger }) => {
      const event = { at: 1, type: "task.released" as const, agent: "failed" };
      return ledger.unclaimTask(failed.taskId ?? "", "cancelled", "it could not be started", 1, event);
    });
    const shown = await text("status");
    expect(shown).toMatch(/^asks .* waiting: permission .* t-\w+ Work of asks$/m);
    expect(shown).toMatch(/^homeless .* t-\w+ Work of homeless +worktree gone$/m);
    expect(shown).toMatch(/^cleaned .* t-\w+ \(given back\) +cleaned$/m);
    expect(shown).toMatch(/^failed .* t-\w+ \(cancelled\)$/m);
    const hints = shown.split("\n").filter((line) => line.includes(": overseer "));
    expect(hints).toEqual([
      "asks waits for you: overseer attach asks",
      "homeless has lost its worktree: overseer stop homeless && overseer resume homeless",
      "halted, dead can go on: overseer resume NAME or --all",
      "failed failed: overseer logs failed",
    ]);
  });

  test("of fifteen workers has a line for each that fits into 80 columns, and few lines besides", async () => {
    const names = Array.from({ length: 15 }, (_, at) => `worker-number-${at}`);
    const taskId = await createTask("A title that says at great length what it is about");
    for (const name of names) {
      await ended({ name, taskId, worktree: `${project.path}/nowhere/${name}` }, "stopped");
    }
    await project.overseer(["mail", "send", "--to", names.join(), "--subject", "x"]);
    const shown = await project.open(async (opened) =>
      statusText(await readStatus(opened), "human", PLAIN, 80),
    );
    const lines = shown.split("\n");
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
    expect(
      lines.filter((line) => /^worker-number-\d+ .* t-\w+ A ti.*… +worktree gone, 1 unread$/.test(line)),
    ).toHaveLength(15);
    expect(lines).toContain("15 workers can go on: overseer resume NAME or --all");
    expect(lines.length).toBeLessThan(24);
  });
});

describe("events", () => {
  interface Event {
    at: string;
    type: string;
    agent: string | null;
  }
  const types = async (...args: string[]) =>
    (await data<{ events: Event[] }>("events", ...args)).events.map(({ type }) => type);

  beforeEach(async () => {
    await project.open(async ({ ledger }) => {
      const at = Date.parse("2026-01-31T12:00:00Z");
      await ledger.appendEvents([
        { at, type: "session.started", agent: "ada" },
        { at: at + 1_000, type: "mail.sent", agent: "bob", data: { subject: "two\nlines" } },
        { at: Date.now() - 30_000, type: "mail.read", agent: "ada" },
        { at: Date.now(), type: "session.ended", agent: "ada" },
      ]);
    });
  });

  test("come oldest first, the newest when limited, and filter by agent, type, family and time", async () => {
    expect(await types()).toEqual(["session.started", "mail.sent", "mail.read", "session.ended"]);
    expect(await types("--limit", "2")).toEqual(["mail.read", "session.ended"]);
    expect(await types("--agent", "bob")).toEqual(["mail.sent"]);
    expect(await types("--type", "mail.read")).toEqual(["mail.read"]);
    expect(await types("--type", "mail")).toEqual(["mail.sent", "mail.read"]);
    expect(await types("--type", "session", "--agent", "ada", "--limit", "1")).toEqual(["session.ended"]);
    expect(await types("--since", "1m")).toEqual(["mail.read", "session.ended"]);
    expect(await types("--since", "5s")).toEqual(["session.ended"]);
    expect(await types("--since", "2026-01-31T12:00:01Z")).toEqual([
      "mail.sent",
      "mail.read",
      "session.ended",
    ]);
  });

  test("are one line each in text", async () => {
    const lines = (await text("events")).trimEnd().split("\n");
    expect(lines).toHaveLength(4);
    expect(lines[1]).toBe("2026-01-31T12:00:01.000Z mail.sent bob subject=two lines");
  });

  test("a mistyped type or time is refused with what was probably meant", async () => {
    const type = await project.overseer(["events", "--type", "mail.snet", "--json"]);
    expect(type.exitCode).toBe(64);
    expect(type.error().hint).toBe("did you mean mail.sent?");
    const since = await project.overseer(["events", "--since", "yesterday-ish", "--json"]);
    expect(since.exitCode).toBe(64);
    expect(since.error().code).toBe("since_invalid");
    for (const limit of ["0", "-1", "1.5", "100001", ""]) {
      expect((await project.overseer(["events", `--limit=${limit}`])).exitCode).toBe(64);
    }
  });

  test("--follow prints what there is and then what happens, as text or one JSON object a line", async () => {
    const follow = (...args: string[]) =>
      Bun.spawn([OVERSEER, "events", "--follow", "--type", "mail", ...args], {
        cwd: project.path,
        env: cleanEnvironment(),
        stdout: Bun.file(`${project.path}/followed${args.join("")}`),
        stderr: "inherit",
      });
    const children = [follow(), follow("--json")];
    const seen = (name: string) => readFileSync(`${project.path}/${name}`, "utf8").trimEnd().split("\n");
    const haveSeen = (n: number) => ["followed", "followed--json"].every((name) => seen(name).length === n);
    try {
      await until("both have begun", () => haveSeen(2));
      await project.overseer(["mail", "send", "--to", "human", "--subject", "while you watch"]);
      await until("both have seen it", () => haveSeen(3));
      expect(seen("followed")[2]).toContain("subject=while you watch");
      expect(JSON.parse(seen("followed--json")[2] ?? "")).toMatchObject({
        type: "mail.sent",
        agent: "human",
      });
      expect(children.map(({ exitCode }) => exitCode)).toEqual([null, null]);
    } finally {
      for (const child of children) child.kill();
      await Promise.all(children.map(({ exited }) => exited));
    }
  });
});

describe("prime", () => {
  test("tells a worker who it is, what it does and how to report", async () => {
    const taskId = await createTask("Add a form");
    const token = await project.register({
      name: "ada",
      taskId,
      branch: "b",
      parent: "lea",
      fileScope: ["src/a"],
    });
    await project.register({ name: "bob", capability: "scout" });
    await project.overseer(["mail", "send", "--to", "ada", "--subject", "Which port?", "--type", "question"]);
    const env = { OVERSEER_TOKEN: token };
    const { stdout } = await project.overseer(["prime"], { env });
    const parts = [
      "You are ada, a builder on branch b.",
      "Your files: src/a",
      `Your task: ${taskId}`,
      "Add a form",
    ];
    for (const part of [
      ...parts,
      "human asks: Which port?",
      "bob (scout)",
      "--to lea",
      `task close ${taskId}`,
    ]) {
      expect(stdout).toContain(part);
    }
    const compact = (await project.overseer(["prime", "--compact"], { env })).stdout;
    expect(compact.length).toBeLessThan(stdout.length);
    for (const part of [...parts, "Which port?"]) expect(compact).toContain(part);
    expect(compact).not.toContain("bob (scout)");
  });

  test("tells the orchestrator, and a person, who works and what is ready", async () => {
    await createTask("Add a form");
    await project.register({ name: "ada" });
    const shown = await text("prime");
    expect(shown).toContain("You are the orchestrator");
    expect(shown).toContain("ada (builder): booting");
    expect(shown).toContain("Add a form");
    expect((await project.overseer(["prime"], { env: { CLAUDECODE: "1" } })).stdout).toContain(
      "orchestrator",
    );
  });

  test("stays short however much there is", async () => {
    const taskId = (
      await project.overseer(["task", "create", "t".repeat(200), "--body", "-", "--json"], {
        stdin: "b".repeat(60_000),
      })
    ).data<{ task: { id: string } }>().task.id;
    const token = await project.register({
      name: "ada",
      taskId,
      fileScope: Array(500).fill("src/some/where"),
    });
    for (let n = 0; n < 30; n++) await project.register({ name: `w${n}` });
    await project.open(async ({ mail }) => {
      const message = { from: "human", to: "ada", body: "", type: "question", priority: "normal" } as const;
      const ids = Array.from({ length: 50 }, (_, n) => `msg-${n}`);
      await mail.send(
        ids.map((id) => ({ ...message, id, threadId: id, subject: "s".repeat(200), createdAt: 1 })),
      );
    });
    for (const args of [["prime"], ["prime", "--compact"]]) {
      const shown = (await project.overseer(args, { env: { OVERSEER_TOKEN: token } })).stdout;
      expect(shown.length).toBeLessThan(6_200);
      expect(shown).toContain("You are ada");
    }
  });

  test("of nobody is refused, and its JSON has times in ISO 8601", async () => {
    await project.register({ name: "ada" });
    await project.register({ name: "bob" });
    await createTask("x");
    expect((await project.overseer(["prime", "--agent", "adda", "--json"])).exitCode).toBe(64);
    const facts = await data<{ now: string; lastEvents: { at: string }[]; others: { since: string }[] }>(
      "prime",
    );
    const times = [
      facts.now,
      ...facts.lastEvents.map(({ at }) => at),
      ...facts.others.map(({ since }) => since),
    ];
    expect(times.length).toBeGreaterThan(3);
    for (const time of times) expect(time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  });
});

describe("config", () => {
  test("show names each value and where it comes from", async () => {
    appendFileSync(`${project.path}/.overseer/config.yaml`, "agents:\n  maxConcurrent: 3\n");
    const shown = await text("config", "show");
    expect(shown).toMatch(/^agents\.maxConcurrent +3 +file$/m);
    expect(shown).toMatch(/^watchdog\.interval +30s +default$/m);
    const { sources, config } = await data<{
      sources: Record<string, string>;
      config: Record<string, unknown>;
    }>("config", "show");
    expect(sources).toMatchObject({ "agents.maxConcurrent": "file", tracker: "default" });
    expect(config.agents).toMatchObject({ maxConcurrent: 3 });
    expect(await text("config", "validate")).toContain("valid");
  });

  test("a broken file is refused by line and key, with what is allowed, by every command that needs it", async () => {
    const file = `${project.path}/.overseer/config.yaml`;
    const line = readFileSync(file, "utf8").split("\n").length + 1;
    appendFileSync(file, "agents:\n  maxConcurent: 3\nwatchdog:\n  interval: soon\n");
    const refused = await project.overseer(["config", "validate", "--json"]);
    expect(refused.exitCode).toBe(1);
    expect(refused.error().code).toBe("config_invalid");
    expect(refused.error().message).toMatch(
      new RegExp(
        `config\\.yaml:${line}: agents\\.maxConcurent .*maxConcurrent[\\s\\S]*config\\.yaml:${line + 2}: watchdog\\.interval`,
      ),
    );
    for (const args of [["config", "show"], ["status"], ["task", "create", "x"]]) {
      expect((await project.overseer([...args, "--json"])).error().code).toBe("config_invalid");
    }
    expect((await project.overseer(["mail", "check"])).exitCode).toBe(0);
  });

  test("what is not YAML, and what is not text, is an error with a line or a reason", async () => {
    const file = `${project.path}/.overseer/config.yaml`;
    writeFileSync(file, "project:\n  name: [\n");
    expect((await project.overseer(["config", "validate"])).stderr).toMatch(/config\.yaml:\d+: /);
    writeFileSync(file, new Uint8Array([0xff, 0xfe, 0x00]));
    expect((await project.overseer(["config", "validate"])).stderr).toContain("not UTF-8");
  });
});

describe("reading", () => {
  test("leaves every byte and every time of .overseer and of the repository as it was", async () => {
    const taskId = await createTask("Form");
    await project.register({ name: "ada", taskId });
    await log("session-start", "ada", { source: "startup" });
    await project.overseer(["mail", "send", "--to", "ada,human", "--subject", "x"]);
    const { messages } = await data<{ messages: { id: string }[] }>("mail", "list");
    const look = () => snapshot(project.path, { hasTimes: true, except: isBesideDatabase });
    // The first opening after a write may fold the write-ahead log into the database.
    await text("status");
    const before = look();
    for (const args of [
      ["status"],
      ["mail", "list"],
      ["mail", "read", messages[0]?.id ?? ""],
      ["events"],
      ["task", "list"],
      ["task", "ready"],
      ["task", "show", taskId],
      ["prime"],
      ["prime", "--agent", "ada"],
      ["config", "show"],
      ["doctor"],
      ["completions", "bash"],
      ["--help"],
    ]) {
      await project.overseer(args);
      expect({ args, tree: look() }).toEqual({ args, tree: before });
    }
  });
});
