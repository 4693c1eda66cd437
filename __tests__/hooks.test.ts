import { expect, test } from "bun:test";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { EventType } from "../src/domain/event.ts";
import { HOOK_EVENTS, type HookEvent } from "../src/domain/hook-event.ts";
import type { SessionState, WaitingReason } from "../src/domain/session.ts";
import { filesBelow } from "../src/effects/files.ts";
import { mailIdsIn, type TestProject, testProject, type Worker } from "./support/project.ts";

const BASH = { tool_name: "Bash", tool_use_id: "toolu_1", tool_input: { command: "git -C . commit -m x" } };

interface Expected {
  payload: Record<string, unknown>;
  type: EventType;
  state: SessionState;
  reason?: WaitingReason;
  data: Record<string, unknown>;
  /** What session.log says after the time. */
  line: string;
  tool?: Record<string, unknown>;
  isError?: boolean;
}

const CALL = { tool: "Bash", input: BASH.tool_input, files: [], git: ["commit"], mail: [] };
/** A worker that works gets each of these. */
const EVENTS: Record<HookEvent, Expected> = {
  SessionStart: {
    payload: { source: "startup" },
    type: "session.started",
    state: "working",
    data: { source: "startup", transcript: expect.stringMatching(/\.jsonl$/) },
    line: expect.stringMatching(/^started source="startup" transcript=".+\.jsonl"$/),
  },
  UserPromptSubmit: {
    payload: { prompt: "go" },
    type: "session.prompted",
    state: "working",
    data: {},
    line: "prompted",
  },
  PreToolUse: {
    payload: BASH,
    type: "session.tool_started",
    state: "working",
    data: { tool: "Bash", input: BASH.tool_input },
    line: "tool_started Bash git -C . commit -m x",
    tool: { phase: "started", ...CALL, durationMs: null, result: null, error: null },
  },
  PostToolUse: {
    payload: { ...BASH, tool_response: { stdout: "1 file changed\n" }, duration_ms: 12 },
    type: "session.tool_finished",
    state: "working",
    data: { tool: "Bash", durationMs: 12, result: "1 file changed\n", files: [], git: ["commit"] },
    line: "tool_finished Bash git -C . commit -m x (12 ms)",
    tool: { phase: "finished", ...CALL, durationMs: 12, result: "1 file changed\n", error: null },
  },
  PostToolUseFailure: {
    payload: { ...BASH, error: "Exit code 1\nnothing to commit", duration_ms: 7 },
    type: "session.tool_failed",
    state: "working",
    data: {
      tool: "Bash",
      durationMs: 7,
      error: "Exit code 1\nnothing to commit",
      files: [],
      git: ["commit"],
    },
    line: "tool_failed Bash git -C . commit -m x (7 ms) error: Exit code 1\\nnothing to commit",
    tool: { phase: "failed", ...CALL, durationMs: 7, result: null, error: "Exit code 1\nnothing to commit" },
    isError: true,
  },
  PermissionRequest: {
    payload: BASH,
    type: "session.waiting",
    state: "waiting",
    reason: "permission",
    data: { tool: "Bash" },
    line: 'waiting tool="Bash"',
  },
  Notification: {
    payload: { message: "may I?", notification_type: "elicitation_dialog" },
    type: "session.notified",
    state: "waiting",
    reason: "question",
    data: { message: "may I?" },
    line: 'notified message="may I?"',
  },
  Stop: {
    payload: { last_assistant_message: "done", stop_hook_active: false },
    type: "session.turn_ended",
    state: "idle",
    data: { message: "done" },
    line: 'turn_ended message="done"',
  },
  StopFailure: {
    payload: { error: "rate_limit", error_details: "429" },
    type: "session.turn_failed",
    state: "waiting",
    reason: "rate_limit",
    data: { error: "rate_limit: 429", message: null },
    line: 'turn_failed error="rate_limit: 429"',
    isError: true,
  },
  PreCompact: {
    payload: { trigger: "auto" },
    type: "session.compacting",
    state: "working",
    data: {},
    line: "compacting",
  },
  SessionEnd: {
    payload: { reason: "other" },
    type: "session.ended",
    state: "stopped",
    data: { reason: "other" },
    line: 'ended reason="other"',
  },
};

const isoLine = (line: string) => line.replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z /, "");

test("every hook event is recorded once, with its type, state and whole log lines", async () => {
  await using at = await testProject();
  await Promise.all(
    HOOK_EVENTS.map(async (event, index) => {
      const expected = EVENTS[event];
      const worker = await at.worker(`ada-${index}`);
      const claude = at.claude(worker);
      await claude.fire("SessionStart", { source: "startup" });
      const ran = await claude.fire(event, expected.payload);
      expect({ ...ran, stdout: event === "SessionStart" ? "" : ran.stdout }).toEqual({
        exitCode: 0,
        stdout: "",
        stderr: "",
      });

      const [last] = (await at.project.ledger.listEvents({ agent: worker.name, limit: 10 })).slice(-1);
      expect(last).toMatchObject({ type: expected.type, sessionId: worker.session.id });
      expect(last?.data).toEqual(expected.data);
      expect(await at.session(worker.name)).toMatchObject({
        state: expected.state,
        reason: expected.reason ?? null,
        claudeSessionId: claude.sessionId,
        transcriptPath: expect.stringContaining(`${claude.sessionId}.jsonl`),
      });

      const log = (name: string) => at.log(`${worker.session.logFolder}/${name}`);
      expect(log("session.log").map(isoLine)).toEqual([EVENTS.SessionStart.line, expected.line]);
      expect(log("events.ndjson").map((line) => JSON.parse(line).type)).toEqual([
        "session.registered",
        "session.started",
        expected.type,
      ]);
      expect(JSON.parse(log("events.ndjson").at(-1) ?? "").data).toEqual(expected.data);
      const tools = log("tools.ndjson").map((line) => JSON.parse(line));
      expect(tools).toEqual(expected.tool ? [{ at: expect.any(String), ...expected.tool }] : []);
      expect(log("errors.log").map(isoLine)).toEqual(expected.isError ? [expected.line] : []);
    }),
  );
  expect(at.log("errors.log")).toEqual([]);
});

test("twenty hooks of one session at once are all counted, and their log lines stay whole", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  const claude = at.claude(ada);
  const commands = Array.from({ length: 20 }, (_, n) => `echo ${n} ${"x".repeat(1_900)}`);
  await Promise.all(
    commands.map((command) => claude.fire("PreToolUse", { ...BASH, tool_input: { command } })),
  );
  const logged = at
    .log(`${ada.session.logFolder}/tools.ndjson`)
    .map((line) => JSON.parse(line).input.command);
  expect(logged.toSorted()).toEqual(commands.toSorted());
  expect(at.log(`${ada.session.logFolder}/session.log`)).toHaveLength(20);
  expect(await at.session("ada")).toMatchObject({ state: "working", toolsInFlight: 20 });
});

test("a session that begins is told who it is and how much mail waits, and claims none of it", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada", { branch: "overseer/ada/t-1" });
  await at.send({ to: ["ada"], subject: "lunch", body: "at noon" });
  for (const source of ["startup", "resume", "clear", "compact"]) {
    const { stdout } = await at.claude(ada).fire("SessionStart", { source });
    expect(stdout).toContain("You are ada, a builder on branch overseer/ada/t-1.");
    expect(stdout).toContain("1 unread message");
    expect(stdout).toContain("- from human: lunch");
    expect(stdout).not.toContain("at noon");
  }
  expect(at.mailRows().map(({ state }) => state)).toEqual(["unread"]);
  const types = (await at.project.ledger.listEvents({ agent: "ada", limit: 10 })).map(({ type }) => type);
  expect(types.slice(-2)).toEqual(["session.started", "session.compacted"]);
});

async function outputOf(at: TestProject, worker: Worker, event: HookEvent): Promise<string> {
  const { exitCode, stdout, stderr } = await at.claude(worker).fire(event, EVENTS[event].payload);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  return stdout;
}

test("a prompt shows all unread mail as text, a tool use only the pressing as that event's JSON", async () => {
  await using at = await testProject();
  const [ada, bob, cleo] = [await at.worker("ada"), await at.worker("bob"), await at.worker("cleo")];
  const to = [ada.name, bob.name, cleo.name];
  await at.send({ to, body: "whenever" });
  await at.send({ to, from: "dora", body: "now", priority: "high" });
  await at.send({ to, from: "emil", body: "other way", type: "steer" });

  const prompt = await outputOf(at, ada, "UserPromptSubmit");
  expect(prompt).toMatch(
    /^<overseer-mail from="human" id="msg-\w+" type="status" priority="normal" subject="news">\nwhenever\n<\/overseer-mail>\n<overseer-mail from="dora"[^>]* priority="high" [^>]*>\nnow\n<\/overseer-mail>\n<overseer-mail from="emil"[^>]* type="steer" [^>]*>\nother way\n<\/overseer-mail>\n$/,
  );
  for (const [worker, event] of [
    [bob, "PostToolUse"],
    [cleo, "PostToolUseFailure"],
  ] as const) {
    const output: unknown = JSON.parse(await outputOf(at, worker, event));
    expect(output).toEqual({
      hookSpecificOutput: { hookEventName: event, additionalContext: expect.any(String) },
    });
    expect(JSON.stringify(output)).toMatch(/>\\nnow\\n.*>\\nother way\\n/);
    expect(JSON.stringify(output)).not.toContain("whenever");
    expect(JSON.stringify(output)).toContain("1 more unread message waits");
  }
});

test("events that cannot show anything to the model print nothing, whatever waits", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  await at.send({ to: ["ada"], body: "now", priority: "urgent" });
  const silent: HookEvent[] = [
    "PreToolUse",
    "PermissionRequest",
    "Notification",
    "StopFailure",
    "PreCompact",
  ];
  for (const event of [...silent, "SessionEnd"] as const) expect(await outputOf(at, ada, event)).toBe("");
  expect(at.mailRows().map(({ state }) => state)).toEqual(["unread"]);
});

test("Stop blocks once per new message, never in a circle, and the session works on meanwhile", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  const claude = at.claude(ada);
  await claude.fire("SessionStart", { source: "startup" });
  expect((await claude.fire("Stop")).stdout).toBe("");
  for (const body of ["first", "second"]) {
    await at.send({ to: ["ada"], body });
    const { decision, reason } = JSON.parse((await claude.fire("Stop")).stdout);
    expect(decision).toBe("block");
    expect(reason).toMatch(new RegExp(`^<overseer-mail [^>]*>\n${body}\n</overseer-mail>$`));
    expect((await at.session("ada")).state).toBe("working");
    expect((await claude.fire("Stop", { stop_hook_active: true })).stdout).toBe("");
    expect((await at.session("ada")).state).toBe("idle");
  }
  expect(at.mailRows().map(({ state }) => state)).toEqual(["read", "read"]);
});

test("what one sender wrote stays in order: pressing mail brings along what came before it", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  const bodies = ["dora 1", "emil 1", "dora 2!", "dora 3", "emil 2"];
  for (const body of bodies) {
    const priority = body.endsWith("!") ? "urgent" : "normal";
    await at.send({ to: ["ada"], from: body.slice(0, 4), body, priority });
  }
  const ids = at.mailRows().map(({ id }) => id);
  const claude = at.claude(ada);
  expect(mailIdsIn((await claude.fire("PostToolUse", BASH)).stdout)).toEqual(
    [ids[0], ids[2]].map((id) => id ?? ""),
  );
  expect(mailIdsIn((await claude.fire("UserPromptSubmit")).stdout)).toEqual(
    [ids[1], ids[3], ids[4]].map((id) => id ?? ""),
  );
});

test("one injection has at most 8,000 characters, claims what it shows and says how many wait", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  for (let n = 0; n < 9; n++)
    await at.send({ to: ["ada"], body: `${n} ${"x".repeat(2_400)}`, priority: "high" });
  const claude = at.claude(ada);
  const shown: string[] = [];
  for (const left of [6, 3]) {
    const { stdout } = await claude.fire("PostToolUse", BASH);
    const text: string = JSON.parse(stdout).hookSpecificOutput.additionalContext;
    expect(text.length).toBeLessThanOrEqual(8_000);
    expect(text.split("\n").at(-1)).toBe(
      `${left} more unread messages wait: read them with: overseer mail check`,
    );
    expect(at.mailRows().filter(({ state }) => state === "unread")).toHaveLength(left);
    shown.push(...mailIdsIn(text));
  }
  const last = await claude.fire("UserPromptSubmit");
  expect(last.stdout).not.toContain("more unread");
  shown.push(...mailIdsIn(last.stdout));
  expect(shown).toEqual(at.mailRows().map(({ id }) => id));
});

test("a message of 60 KB is shown by its head, with the command that prints it whole", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  const body = `begin ${"ä".repeat(30_000)} end`;
  const [message] = await at.send({ to: ["ada"], body });
  const { stdout } = await at.claude(ada).fire("UserPromptSubmit");
  expect(stdout).toContain(`Read it with: overseer mail read ${message?.id}`);
  expect(stdout.length).toBeLessThan(500);
  const read = await at.overseer(["mail", "read", message?.id ?? ""], { env: ada.env });
  expect(read.stdout).toContain(body);
});

test("an unknown token, or none, gets no answer and leaves no trace", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  await at.send({ to: ["ada", "orchestrator"], body: "secret plan" });
  const before = snapshot(at);
  for (const event of HOOK_EVENTS) {
    for (const token of ["nobody-has-this", ""]) {
      const ran = await at.claude(ada).fire(event, {}, { env: { OVERSEER_TOKEN: token } });
      expect(ran).toEqual({ exitCode: 0, stdout: "", stderr: "" });
    }
  }
  expect(at.mailRows().map(({ state }) => state)).toEqual(["unread", "unread"]);
  expect(await at.project.ledger.listEvents({ type: "session", limit: 10 })).toHaveLength(1);
  expect(Object.keys(snapshot(at))).toEqual(Object.keys(before));
});

test("the orchestrator's hooks are silent in a worker's environment", async () => {
  await using at = await testProject();
  await at.send({ to: ["orchestrator"], body: "for you alone", priority: "urgent" });
  const before = snapshot(at);
  const claude = at.claude(null);
  for (const env of [{ OVERSEER_AGENT_NAME: "ada" }, { OVERSEER_TOKEN: "any" }]) {
    for (const event of HOOK_EVENTS) {
      expect(await claude.fire(event, {}, { env })).toEqual({ exitCode: 0, stdout: "", stderr: "" });
    }
  }
  expect(snapshot(at)).toEqual(before);
  expect((await claude.fire("UserPromptSubmit")).stdout).toContain("for you alone");
});

test("of two orchestrator sessions at once, each message is shown to one", async () => {
  await using at = await testProject();
  for (let n = 0; n < 12; n++) await at.send({ to: ["orchestrator"], body: `${n} ${"x".repeat(1_500)}` });
  const claudes = [at.claude(null), at.claude(null)];
  const shown: string[] = [];
  for (let round = 0; round < 2; round++) {
    const ran = await Promise.all(claudes.map((claude) => claude.fire("UserPromptSubmit")));
    shown.push(...ran.flatMap(({ stdout }) => mailIdsIn(stdout)));
  }
  expect(shown.toSorted()).toEqual(
    at
      .mailRows()
      .map(({ id }) => id)
      .toSorted(),
  );
  for (const claude of claudes) await claude.fire("Stop");
  expect(new Set(at.mailRows().map(({ state }) => state))).toEqual(new Set(["read"]));
});

test("a tool use of the orchestrator writes nothing when no mail presses", async () => {
  await using at = await testProject();
  await at.send({ to: ["orchestrator"], body: "whenever" });
  const claude = at.claude(null);
  const before = snapshot(at);
  for (const event of ["PostToolUse", "PostToolUseFailure"] as const) {
    expect(await claude.fire(event, EVENTS[event].payload)).toEqual({ exitCode: 0, stdout: "", stderr: "" });
  }
  expect(snapshot(at)).toEqual(before);
});

/** The content and time of every file below .overseer, but for what SQLite lays beside a database that is read. */
function snapshot(at: TestProject): Record<string, string> {
  at.close();
  const names = filesBelow(at.paths.home).map((name) => join(at.paths.home, name));
  const isLasting = (file: string) =>
    !file.endsWith("-shm") && !(file.endsWith("-wal") && statSync(file).size === 0);
  return Object.fromEntries(
    names
      .filter(isLasting)
      .map((file) => [file, `${statSync(file).mtimeMs} ${Bun.hash(readFileSync(file))}`]),
  );
}
