import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { closeSync, constants, openSync, writeSync } from "node:fs";
import type { HookEvent } from "../src/domain/hook-event.ts";
import { mailIdsIn, type StandIn, type TestProject, testProject } from "./support/project.ts";
import { until } from "./support/until.ts";

const BASH = { tool_name: "Bash", tool_use_id: "toolu_1", tool_input: { command: "true" } };

async function idsShown(claude: StandIn, event: HookEvent, extra = {}): Promise<string[]> {
  const { exitCode, stdout } = await claude.fire(event, extra);
  expect(exitCode).toBe(0);
  return mailIdsIn(stdout);
}

function states(at: TestProject): string[] {
  return at.mailRows().map(({ state }) => state);
}

async function journal(at: TestProject): Promise<string[]> {
  const events = at.log("journal.ndjson").map((line) => JSON.parse(line));
  return events.filter(({ type }) => type !== "mail.sent").map(({ type, data }) => `${type} ${data.ids}`);
}

test("what was printed stays claimed until the next main-turn event of that Claude session", async () => {
  await using at = await testProject();
  const acknowledging = [
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "Stop",
    "StopFailure",
    "PreCompact",
  ] as const;
  for (const [index, event] of acknowledging.entries()) {
    const ada = await at.worker(`ada-${index}`);
    const claude = at.claude(ada);
    const [message] = await at.send({ to: [ada.name], body: "lunch?" });
    expect(await idsShown(claude, "UserPromptSubmit")).toEqual([message?.id ?? ""]);
    expect(at.mailRows().at(-1)).toMatchObject({ state: "claimed", claimSession: claude.sessionId });
    expect(at.mailRows().at(-1)?.claimedBy).toStartWith(`${claude.pid}:`);
    expect(await idsShown(claude, event, BASH)).toEqual([]);
    expect({ event, state: states(at).at(-1) }).toEqual({ event, state: "read" });
    expect((await journal(at)).slice(-2)).toEqual([
      `mail.delivered ${message?.id}`,
      `mail.read ${message?.id}`,
    ]);
  }
});

test("a tool event acknowledges only what the transcript holds; the end of the turn acknowledges all", async () => {
  await using at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  await at.send({ to: ["ada"], body: "stop that!", priority: "urgent" });
  await claude.fire("PostToolUse", BASH, { isForgetful: true });
  for (const event of [
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
  ] as const) {
    expect(await idsShown(claude, event, BASH)).toEqual([]);
    expect({ event, states: states(at) }).toEqual({ event, states: ["claimed"] });
  }
  await claude.fire("Stop");
  expect(states(at)).toEqual(["read"]);
});

test("mail that came with a prompt which was taken back before any answer comes with the next one again", async () => {
  await using at = await testProject();
  for (const worker of [await at.worker("ada"), null]) {
    const claude = at.claude(worker);
    const [message] = await at.send({ to: [worker?.name ?? "orchestrator"], body: "lunch?" });
    for (const isForgetful of [true, false]) {
      const { stdout } = await claude.fire("UserPromptSubmit", {}, { isForgetful, isUnanswered: true });
      expect(mailIdsIn(stdout)).toEqual([message?.id ?? ""]);
      expect(states(at).at(-1)).toBe("claimed");
    }
    // Answered, and interrupted only then: the conversation has it.
    expect(await idsShown(claude, "UserPromptSubmit")).toEqual([message?.id ?? ""]);
    expect(await idsShown(claude, "UserPromptSubmit")).toEqual([]);
    expect(states(at).at(-1)).toBe("read");
  }
});

test("without CLAUDE_PID, the process that started the hook is the one that was shown the mail", async () => {
  await using at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  await at.send({ to: ["ada"] });
  const asChild = { env: { CLAUDE_PID: "" } };
  await claude.fire("UserPromptSubmit", {}, asChild);
  expect(at.mailRows()[0]?.claimedBy).toStartWith(`${process.pid}:`);
  await claude.fire("PreToolUse", BASH, asChild);
  expect(states(at)).toEqual(["read"]);
});

test("an event of a subagent is activity, but neither shows nor acknowledges mail nor moves the state", async () => {
  await using at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  await claude.fire("SessionStart", { source: "startup" });
  await at.send({ to: ["ada"], body: "first" });
  await claude.fire("UserPromptSubmit");
  await at.send({ to: ["ada"], body: "second", priority: "urgent" });
  const subagent = { ...BASH, agent_id: "a1", agent_type: "general-purpose" };
  const events = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
  ];
  for (const event of events as HookEvent[]) {
    expect(await claude.fire(event, subagent)).toEqual({ exitCode: 0, stdout: "", stderr: "" });
  }
  expect(states(at)).toEqual(["claimed", "unread"]);
  expect(await at.session("ada")).toMatchObject({ state: "working", toolsInFlight: 0 });
  const recorded = await at.project.ledger.listEvents({ agent: "ada", limit: 6 });
  expect(recorded.map(({ data }) => data.subagent)).toEqual(events.map(() => "a1"));
  expect(await idsShown(claude, "PostToolUse", BASH)).toHaveLength(1);
  expect(states(at)).toEqual(["read", "claimed"]);
});

test("mail printed to a claude that died before its next event is shown to the next run", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  const [message] = await at.send({ to: ["ada"], body: "lunch?" });
  const sessionId = crypto.randomUUID();
  // The resumed run has the same Claude session, the third a new one.
  const runs = [at.claude(ada, { sessionId }), at.claude(ada, { sessionId }), at.claude(ada)];
  for (const claude of runs) {
    await claude.fire("SessionStart", { source: "startup" });
    expect(await idsShown(claude, "UserPromptSubmit")).toEqual([message?.id ?? ""]);
    expect(states(at)).toEqual(["claimed"]);
    await claude.die();
  }
  const last = at.claude(ada);
  expect(await idsShown(last, "PreToolUse", BASH)).toEqual([]);
  expect(states(at)).toEqual(["unread"]);
  expect((await journal(at)).at(-1)).toBe(`mail.released ${message?.id}`);
  expect(await idsShown(last, "Stop")).toEqual([message?.id ?? ""]);
});

test("pressing mail of a dead run is shown by the very tool use that finds it dead", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  const [message] = await at.send({ to: ["ada"], priority: "urgent" });
  const dead = at.claude(ada);
  await idsShown(dead, "PostToolUse", BASH);
  await dead.die();
  expect(await idsShown(at.claude(ada), "PostToolUse", BASH)).toEqual([message?.id ?? ""]);
});

test("another live session neither takes nor acknowledges what was printed to this one", async () => {
  await using at = await testProject();
  await at.send({ to: ["orchestrator"], body: "lunch?" });
  const [first, second] = [at.claude(null), at.claude(null)];
  expect(await idsShown(first, "UserPromptSubmit")).toHaveLength(1);
  expect(await idsShown(second, "UserPromptSubmit")).toEqual([]);
  expect(await idsShown(second, "Stop")).toEqual([]);
  expect(states(at)).toEqual(["claimed"]);
  await idsShown(first, "Stop");
  expect(states(at)).toEqual(["read"]);
});

test("the end of a session gives back what it was shown and did not acknowledge, and nothing else", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  const claude = at.claude(ada);
  await at.send({ to: ["ada"], body: "first" });
  await idsShown(claude, "UserPromptSubmit");
  await at.send({ to: ["ada"], body: "second" });
  await idsShown(claude, "Stop");
  await claude.fire("SessionEnd", { reason: "other" });
  expect(states(at)).toEqual(["read", "unread"]);
  expect(await idsShown(at.claude(ada), "UserPromptSubmit")).toHaveLength(1);
});

test("a hook killed between claiming and printing loses nothing", async () => {
  await using at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  const [message] = await at.send({ to: ["ada"], body: "lunch?" });
  using pipe = fullPipe(`${at.scratch}/full`);
  const hook = claude.start("UserPromptSubmit", pipe.writer);
  await until("the hook has claimed the mail", () => states(at)[0] === "claimed", { everyMs: 2 });
  expect(at.mailRows()[0]?.claimedBy).toStartWith(`${hook.pid}:`);
  hook.kill("SIGKILL");
  await hook.exited;
  expect(await idsShown(claude, "UserPromptSubmit")).toEqual([message?.id ?? ""]);
});

test("a hook killed between printing and handing over loses nothing", async () => {
  await using at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  const [message] = await at.send({ to: ["ada"], body: "lunch?" });
  using db = new Database(at.paths.mail);
  // Handing over changes a claim into another one; here that takes for ever.
  db.run(
    `CREATE VIEW forever AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n`,
  );
  db.run(`CREATE TRIGGER slow BEFORE UPDATE OF claimed_by ON messages
    WHEN old.claimed_by IS NOT NULL AND new.claimed_by IS NOT NULL BEGIN SELECT * FROM forever; END`);
  const hook = claude.start("UserPromptSubmit", "pipe");
  if (!(hook.stdout instanceof ReadableStream)) throw new Error("its output is a pipe");
  const { value } = await hook.stdout.getReader().read();
  expect(mailIdsIn(new TextDecoder().decode(value))).toEqual([message?.id ?? ""]);
  expect(at.mailRows()[0]?.claimedBy).toStartWith(`${hook.pid}:`);
  hook.kill("SIGKILL");
  await hook.exited;
  db.run("DROP TRIGGER slow");
  expect(await idsShown(claude, "UserPromptSubmit")).toEqual([message?.id ?? ""]);
});

test("mail printed to a reader that is gone is shown again", async () => {
  await using at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  const [message] = await at.send({ to: ["ada"], body: "lunch?" });
  const path = `${at.scratch}/broken`;
  const pipe = fullPipe(path);
  const writer = openSync(path, "w");
  pipe[Symbol.dispose]();
  const hook = claude.start("UserPromptSubmit", writer);
  closeSync(writer);
  expect(await hook.exited).toBe(0);
  expect(await idsShown(claude, "UserPromptSubmit")).toEqual([message?.id ?? ""]);
});

test("a late hook of an older incarnation takes no mail of the newer, nor its state", async () => {
  await using at = await testProject();
  const older = at.claude(await at.worker("ada"));
  await older.fire("SessionStart", { source: "startup" });
  await older.fire("SessionEnd", { reason: "other" });
  const newer = at.claude(await at.worker("ada"));
  await newer.fire("SessionStart", { source: "startup" });
  const [message] = await at.send({ to: ["ada"], body: "lunch?", priority: "urgent" });
  for (const event of ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"] as const) {
    expect(await older.fire(event, BASH)).toEqual({ exitCode: 0, stdout: "", stderr: "" });
  }
  expect(states(at)).toEqual(["unread"]);
  expect(await at.session("ada")).toMatchObject({ state: "working", claudeSessionId: newer.sessionId });
  expect(await idsShown(newer, "PostToolUse", BASH)).toEqual([message?.id ?? ""]);
  for (const event of ["PreToolUse", "SessionEnd"] as const) await older.fire(event, BASH);
  expect(states(at)).toEqual(["claimed"]);
});

/** A pipe with a reader that never reads and no room left: whoever writes to it waits. */
function fullPipe(path: string): Disposable & { writer: number } {
  Bun.spawnSync(["mkfifo", path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const filler = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  const writer = openSync(path, "w");
  for (const size of [4_096, 1]) fill(filler, new Uint8Array(size));
  const close = () => {
    for (const fd of [reader, filler, writer]) closeSync(fd);
  };
  return { writer, [Symbol.dispose]: close };
}

function fill(fd: number, chunk: Uint8Array): void {
  try {
    for (;;) writeSync(fd, chunk);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
  }
}
