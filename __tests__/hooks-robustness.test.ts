import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HOOK_EVENTS } from "../src/domain/hook-event.ts";
import { filesBelow } from "../src/effects/files.ts";
import { mailIdsIn, type Ran, run, type StandIn, type TestProject, testProject } from "./support/project.ts";
import { until } from "./support/until.ts";

const BASH = { tool_name: "Bash", tool_use_id: "toolu_1", tool_input: { command: "true" } };
/** Where not even the error log can be written. */
const UNLOGGED = /^overseer: hook \w+: .*; not logged: .*\n$/;
const SILENCE: Ran = { exitCode: 0, stdout: "", stderr: "" };

/** A worker with one unread message, and the session that would be shown it. */
async function expectant(): Promise<
  AsyncDisposable & { at: TestProject; claude: StandIn; messageId: string }
> {
  const at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  await claude.fire("SessionStart", { source: "startup" });
  const [message] = await at.send({ to: ["ada"], body: "lunch?" });
  return { at, claude, messageId: message?.id ?? "", [Symbol.asyncDispose]: () => at[Symbol.asyncDispose]() };
}

/** Afterwards everything is as if nothing had happened. */
async function expectUndisturbed(claude: StandIn, messageId: string): Promise<void> {
  const { exitCode, stdout } = await claude.fire("UserPromptSubmit");
  expect({ exitCode, ids: mailIdsIn(stdout) }).toEqual({ exitCode: 0, ids: [messageId] });
}

function removeDatabase(file: string): void {
  for (const end of ["", "-wal", "-shm"]) rmSync(`${file}${end}`, { force: true });
}

const nested = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
const bytes = (...parts: (string | number)[]) =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.of(part))));

test.each([
  ["empty", ""],
  ["not JSON", "hello {"],
  ["cut off", '{"session_id":"abc'],
  ["an array", "[1,2]"],
  ["a number", "42"],
  ["null", "null"],
  ["a string", '"Stop"'],
  ["bytes that are no text", bytes(0xff, 0xfe, 0x00, 0x80)],
  ["ten thousand levels of nothing", nested(10_000)],
])("a payload that is %s is reported in the error log and otherwise ignored", async (_, payload) => {
  await using here = await expectant();
  const { at, claude, messageId } = here;
  for (const event of ["UserPromptSubmit", "PostToolUse", "SessionEnd"]) {
    expect(await claude.fireRaw(event, payload)).toEqual(SILENCE);
    expect(at.log("errors.log").at(-1)).toContain(
      `hook ${event}: Error: the payload of ${event} is not a JSON object`,
    );
  }
  expect(at.log("errors.log")).toHaveLength(3);
  expect((await at.session("ada")).state).toBe("working");
  await expectUndisturbed(claude, messageId);
});

test("an event that nobody knows is reported in the error log and otherwise ignored", async () => {
  await using here = await expectant();
  const { at, claude, messageId } = here;
  for (const event of ["Moonrise", "__proto__", "toString"]) {
    expect(await claude.fireRaw(event, JSON.stringify({ session_id: claude.sessionId }))).toEqual(SILENCE);
    expect(at.log("errors.log").at(-1)).toContain(`unknown hook event "${event}"`);
  }
  await expectUndisturbed(claude, messageId);
});

test("odd values in a payload are recorded as far as they make sense", async () => {
  await using here = await expectant();
  const { at, claude, messageId } = here;
  const odd = [
    JSON.stringify({ session_id: 7, tool_name: ["Bash"], tool_input: "text", duration_ms: "long" }),
    bytes(
      '{"session_id":"',
      0xff,
      0xc3,
      '","tool_name":"Ba',
      0x80,
      'sh","tool_input":{"command":"',
      0xed,
      '"}}',
    ),
    `{"tool_name":"Bash","tool_input":${nested(10_000)},"tool_response":${nested(10_000)}}`,
    `{"tool_name":"Bash","error":${nested(10_000)},"tool_input":{"__proto__":{"command":1}}}`,
  ];
  for (const payload of odd) {
    for (const event of ["PreToolUse", "PostToolUse"])
      expect(await claude.fireRaw(event, payload)).toEqual(SILENCE);
  }
  const { logFolder } = await at.session("ada");
  const tools = at.log(`${logFolder}/tools.ndjson`).map((line) => JSON.parse(line));
  const names = ["unknown", "Ba\ufffdsh", "Bash", "Bash"];
  expect(tools.map(({ tool }) => tool)).toEqual(names.flatMap((name) => [name, name]));
  expect(tools[4].input).toEqual([[["[deeper]"]]]);
  expect(at.log("errors.log")).toEqual([]);
  await expectUndisturbed(claude, messageId);
});

test("ten megabytes of tool output are kept as a short summary", async () => {
  await using here = await expectant();
  const { at, claude, messageId } = here;
  const stdout = `first line\n${"x".repeat(10_000_000)}`;
  for (const tool_response of [stdout, { stdout }, { files: Array(100_000).fill("y".repeat(100)) }]) {
    expect(await claude.fire("PostToolUse", { ...BASH, tool_response })).toEqual(SILENCE);
  }
  for (const name of filesBelow(at.paths.logs)) {
    expect(readFileSync(join(at.paths.logs, name)).length).toBeLessThan(20_000);
  }
  const [event] = await at.project.ledger.listEvents({ type: "session.tool_finished", limit: 3 });
  expect(event?.data.result).toStartWith("first line\nxxx");
  expect(at.log("errors.log")).toEqual([]);
  await expectUndisturbed(claude, messageId);
});

test("without a session id the event is recorded, but no mail is shown that nobody could acknowledge", async () => {
  await using here = await expectant();
  const { at, claude, messageId } = here;
  for (const event of ["UserPromptSubmit", "Stop"])
    expect(await claude.fireRaw(event, "{}")).toEqual(SILENCE);
  expect((await at.session("ada")).state).toBe("idle");
  expect(await at.claude(null).fireRaw("UserPromptSubmit", "{}")).toEqual(SILENCE);
  await expectUndisturbed(claude, messageId);
});

test.each(["ledger", "mail"] as const)(
  "a hook waits for a locked %s and then does its work",
  async (which) => {
    await using here = await expectant();
    const { at, claude, messageId } = here;
    using other = new Database(at.paths[which]);
    other.run("BEGIN IMMEDIATE");
    const since = performance.now();
    let isDone = false;
    const fired = claude.fire("UserPromptSubmit").finally(() => {
      isDone = true;
    });
    await until("a second has passed", () => performance.now() - since > 1_000);
    expect(isDone).toBe(false);
    other.run("COMMIT");
    const { exitCode, stdout, stderr } = await fired;
    expect({ exitCode, stderr, ids: mailIdsIn(stdout) }).toEqual({
      exitCode: 0,
      stderr: "",
      ids: [messageId],
    });
    expect(at.log("errors.log")).toEqual([]);
  },
);

const DAMAGES: [string, (file: string) => void][] = [
  ["is not a database", (file) => writeFileSync(file, "this was a database once\n".repeat(500))],
  ["has torn pages", tearPages],
  ["has a newer schema", (file) => withDatabase(file, (db) => db.run("PRAGMA user_version = 99"))],
  ["lost its tables", (file) => withDatabase(file, (db) => dropTables(db))],
];

for (const [damage, harm] of DAMAGES) {
  test.each(["ledger", "mail"] as const)(
    `a %s that ${damage} is left as it is, in silence`,
    async (which) => {
      await using here = await expectant();
      const { at, claude } = here;
      at.close();
      if (damage === "is not a database") removeDatabase(at.paths[which]);
      harm(at.paths[which]);
      const before = Bun.hash(readFileSync(at.paths[which]));
      for (const event of HOOK_EVENTS) {
        const ran = await claude.fire(event, BASH);
        // Only the one that is asked must be whole: the ledger alone is enough to record an event without mail.
        expect({ event, ...ran }).toEqual({ event, ...SILENCE });
        expect(await at.claude(null).fire(event, BASH)).toEqual(SILENCE);
      }
      expect(Bun.hash(readFileSync(at.paths[which]))).toBe(before);
      expect(at.log("errors.log").join("\n")).toMatch(/damaged|has schema 99|no such table/);
    },
  );
}

test("once overseer is gone from a repository, its hooks are silent and bring nothing back", async () => {
  await using here = await expectant();
  const { at, claude } = here;
  at.close();
  rmSync(at.paths.home, { recursive: true });
  const orchestrator = at.claude(null);
  for (const event of HOOK_EVENTS) {
    expect(await claude.fire(event, BASH)).toEqual(SILENCE);
    expect(await orchestrator.fire(event, BASH)).toEqual(SILENCE);
    expect(await claude.fireRaw(event, "not JSON")).toEqual(SILENCE);
  }
  expect(existsSync(at.paths.home)).toBe(false);
});

test("missing databases and logs are made anew", async () => {
  await using here = await expectant();
  const { at, claude } = here;
  at.close();
  removeDatabase(at.paths.mail);
  rmSync(at.paths.logs, { recursive: true });
  expect(await claude.fire("UserPromptSubmit")).toEqual(SILENCE);
  expect(at.mailRows()).toEqual([]);
  expect(at.log(`${(await at.session("ada")).logFolder}/session.log`)).toHaveLength(1);

  at.close();
  removeDatabase(at.paths.ledger);
  expect(await claude.fire("UserPromptSubmit")).toEqual(SILENCE);
  expect(await at.project.ledger.currentSessions()).toEqual([]);
  const orchestrator = at.claude(null);
  await orchestrator.fire("UserPromptSubmit");
  expect(await at.session("orchestrator")).toMatchObject({ claudeSessionId: orchestrator.sessionId });
});

const isRoot = process.getuid?.() === 0;
const asNobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
/** Root may write anywhere, so the hook must run as somebody else, who may not be able to run our Bun. */
const canTestReadOnly =
  !isRoot || Bun.spawnSync(["/bin/sh", "-c", `${asNobody} ${process.execPath} --version`]).exitCode === 0;

test.skipIf(!canTestReadOnly)("a hook that may not write ends well and says why on stderr", async () => {
  await using here = await expectant();
  const { at, claude, messageId } = here;
  at.close();
  const files = filesBelow(at.paths.home).map((name) => join(at.paths.home, name));
  const folders = [at.paths.home, at.paths.logs];
  for (const file of files) chmodSync(file, 0o444);
  for (const folder of folders) chmodSync(folder, 0o555);
  chmodSync(at.root, 0o755);
  const around = (command: string) =>
    isRoot ? `exec ${asNobody} ${command.replace(/^exec /, "")}` : command;
  for (const event of HOOK_EVENTS) {
    const ran = await claude.fire(event, BASH, { around });
    expect(ran).toEqual({
      exitCode: 0,
      stdout: "",
      stderr: expect.stringMatching(UNLOGGED),
    });
  }
  for (const folder of folders) chmodSync(folder, 0o755);
  for (const file of files) chmodSync(file, 0o644);
  await expectUndisturbed(claude, messageId);
});

const FULL: [number, string, RegExp][] = [
  [0, "at once, the log too", UNLOGGED],
  [8, "for the databases only", /^$/],
];

test.each(FULL)("a disk that is full after %d blocks, %s, costs no mail", async (blocks, _, stderr) => {
  await using here = await expectant();
  const { at, claude, messageId } = here;
  at.close();
  const around = (command: string) => `trap '' XFSZ; ulimit -f ${blocks}; ${command}`;
  const [early, late] = [HOOK_EVENTS.slice(0, 4), HOOK_EVENTS.slice(4)];
  for (const event of [...early, ...(blocks === 0 ? late : [])]) {
    const ran = await claude.fire(event, BASH, { around });
    expect({ event, ...ran }).toEqual({
      event,
      exitCode: 0,
      stdout: "",
      stderr: expect.stringMatching(stderr),
    });
  }
  expect(at.log("errors.log")).toHaveLength(blocks === 0 ? 0 : early.length);
  await expectUndisturbed(claude, messageId);
});

test("the repository's own bunfig.toml and .env have no say in a hook", async () => {
  const evil = 'await Bun.write("executed", "");';
  const env = "OVERSEER_TOKEN=stolen\nOVERSEER_AGENT_NAME=mallory\n";
  await using at = await testProject({
    files: {
      "bunfig.toml": 'preload = ["./evil.ts"]\n',
      "evil.ts": evil,
      ".env": env,
      ".env.local": env,
      "x.ts": "console.log(process.env.OVERSEER_TOKEN);",
    },
  });
  await at.send({ to: ["orchestrator"], body: "lunch?" });
  const executed = join(at.root, "executed");
  const claude = at.claude(null);
  expect((await claude.fire("SessionStart", { source: "startup" })).stdout).toContain(
    "You are the orchestrator",
  );
  // Had it read .env, it would take this for a worker's environment and stay silent.
  expect((await claude.fire("UserPromptSubmit")).stdout).toContain("lunch?");
  expect(existsSync(executed)).toBe(false);

  const plain = await run([process.execPath, "x.ts"], { cwd: at.root });
  expect({ said: plain.stdout, isExecuted: existsSync(executed) }).toEqual({
    said: "stolen\n",
    isExecuted: true,
  });
});

function withDatabase(file: string, work: (db: Database) => void): void {
  using db = new Database(file);
  work(db);
  db.run("PRAGMA wal_checkpoint(TRUNCATE)");
}

function dropTables(db: Database): void {
  const names = db.query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  db.run("PRAGMA foreign_keys = OFF");
  for (const { name } of names.filter((table) => !table.name.startsWith("sqlite_")))
    db.run(`DROP TABLE ${name}`);
}

/** All pages but the first, which says that it is a database and of which schema. */
function tearPages(file: string): void {
  withDatabase(file, () => {});
  const content = readFileSync(file);
  content.fill(0xa5, 4_096);
  writeFileSync(file, content);
}
