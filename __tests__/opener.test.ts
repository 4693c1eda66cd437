import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { OverseerError } from "../src/domain/errors.ts";
import { Connection, FOR_A_HOOK, type OpenOptions, type Schema } from "../src/store/sqlite/connection.ts";
import { openHookLedger } from "../src/store/sqlite/hook-ledger.ts";
import { openLedger } from "../src/store/sqlite/ledger.ts";
import { LEDGER_SCHEMA } from "../src/store/sqlite/ledger-schema.ts";
import { openMail } from "../src/store/sqlite/mail.ts";
import { type TempFolder, tempFolder } from "./support/temp.ts";
import { until } from "./support/until.ts";

const COMMAND = { mayUpgrade: true };
const HOOK = { mayUpgrade: false };
/** Many processes on two cores, and on a busy day. */
const PATIENCE_MS = 60_000;

/** Everything in the folder, byte for byte. */
function snapshot(folder: TempFolder): Record<string, string> {
  return Object.fromEntries(
    readdirSync(folder.path)
      .toSorted()
      .map((name) => {
        const path = `${folder.path}/${name}`;
        return [name, statSync(path).isDirectory() ? "a folder" : readFileSync(path, "base64")];
      }),
  );
}

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return error instanceof OverseerError ? error.code : String(error);
  }
  return "no error";
}

async function filledLedger(file: string): Promise<void> {
  const ledger = openLedger(file, COMMAND);
  const data = { text: "x".repeat(1_000) };
  await ledger.appendEvents(
    Array.from({ length: 300 }, (_, at) => ({ at, type: "task.queued" as const, data })),
  );
  ledger.close();
}

function pragma(file: string, name: string): unknown {
  const db = new Database(file);
  const row = db.query<Record<string, unknown>, []>(`PRAGMA ${name}`).get();
  db.close();
  return row?.[name];
}

const OPENERS: [string, (file: string, options: OpenOptions) => { close(): void }][] = [
  ["the ledger", openLedger],
  ["the mail", openMail],
];

test.each(OPENERS)("%s with a newer schema is refused and left byte for byte", (_name, open) => {
  using folder = tempFolder();
  const file = `${folder.path}/x.db`;
  open(file, COMMAND).close();
  const db = new Database(file);
  db.run("PRAGMA user_version = 99");
  db.close();
  const before = snapshot(folder);
  for (const options of [COMMAND, HOOK]) expect(codeOf(() => open(file, options))).toBe("database_newer");
  expect(snapshot(folder)).toEqual(before);
});

const FIRST = "CREATE TABLE things (name TEXT NOT NULL);";
const OLD: Schema = { migrations: [FIRST] };
const NEW: Schema = { migrations: [FIRST, "ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 7;"] };
const BROKEN: Schema = { migrations: [FIRST, "CREATE TABLE more (a TEXT); INSERT INTO nowhere VALUES (1);"] };

function oldDatabase(file: string): void {
  const connection = Connection.open(file, OLD, COMMAND);
  connection.write(() => connection.run("INSERT INTO things (name) VALUES ('hammer')"));
  connection.close();
}

test("an older schema is refused to a hook and left byte for byte", () => {
  using folder = tempFolder();
  const file = `${folder.path}/x.db`;
  oldDatabase(file);
  const before = snapshot(folder);
  expect(codeOf(() => Connection.open(file, NEW, HOOK))).toBe("database_outdated");
  expect(snapshot(folder)).toEqual(before);
});

test("an older schema that is enough for a hook serves it and is left as it is", () => {
  using folder = tempFolder();
  const file = `${folder.path}/x.db`;
  oldDatabase(file);
  for (const enoughForHooks of [1, 2]) {
    const open = () => Connection.open(file, { ...NEW, enoughForHooks }, HOOK).all("SELECT * FROM things");
    if (enoughForHooks === 1) expect(open()).toEqual([{ name: "hammer" }]);
    else expect(codeOf(open)).toBe("database_outdated");
  }
  expect(pragma(file, "user_version")).toBe(1);
});

test("a ledger of any older schema serves the hooks until a command upgrades it", async () => {
  const { migrations, enoughForHooks = 0 } = LEDGER_SCHEMA;
  for (let version = enoughForHooks; version < migrations.length; version++) {
    using folder = tempFolder();
    const file = `${folder.path}/x.db`;
    Connection.open(file, { migrations: migrations.slice(0, version) }, COMMAND).close();
    const names = { id: "ses-1", name: "orchestrator", capability: "orchestrator", tokenHash: null };
    const session = { ...names, startedAt: 1, logFolder: "x", claudeSessionId: "c-1" };
    const hook = openHookLedger(file);
    await hook.ensureOrchestrator(session);
    const started = {
      at: 2,
      signal: { kind: "started" as const, isIdle: false },
      event: "session.started" as const,
      data: {},
    };
    expect(await hook.recordActivity({ orchestrator: "c-1" }, started)).not.toBeNull();
    expect(pragma(file, "user_version")).toBe(version);
    const ledger = openLedger(file, COMMAND);
    expect(await ledger.currentSession("orchestrator")).toMatchObject({ state: "working" });
    expect(await ledger.latestSessions(5)).toHaveLength(1);
    ledger.close();
    expect(pragma(file, "user_version")).toBe(migrations.length);
  }
});

test("an older schema is upgraded by a command, once, with everything in it", () => {
  using folder = tempFolder();
  const file = `${folder.path}/x.db`;
  oldDatabase(file);
  for (const options of [COMMAND, COMMAND, HOOK]) {
    const connection = Connection.open(file, NEW, options);
    expect(connection.all<unknown>("SELECT * FROM things")).toEqual([{ name: "hammer", size: 7 }]);
    connection.close();
  }
  expect(pragma(file, "user_version")).toBe(2);
});

test("an upgrade that fails half-way leaves the older schema as it was", () => {
  using folder = tempFolder();
  const file = `${folder.path}/x.db`;
  oldDatabase(file);
  expect(() => Connection.open(file, BROKEN, COMMAND)).toThrow("nowhere");
  const connection = Connection.open(file, OLD, HOOK);
  expect(connection.all<unknown>("SELECT name FROM sqlite_master")).toEqual([{ name: "things" }]);
  connection.close();
});

test.each(OPENERS)("%s that is a text file is called damaged and left byte for byte", (_name, open) => {
  using folder = tempFolder();
  const file = folder.write("x.db", "these are my notes, not a database\n".repeat(200));
  const before = snapshot(folder);
  for (const options of [COMMAND, HOOK]) {
    expect(() => open(file, options)).toThrow(
      expect.objectContaining({ code: "database_corrupt", hint: "overseer doctor --fix" }),
    );
  }
  expect(snapshot(folder)).toEqual(before);
});

const DAMAGES: [string, (file: string) => void][] = [
  ["cut to half", (file) => truncateSync(file, Math.floor(statSync(file).size / 2))],
  ["cut in the middle of a page", (file) => truncateSync(file, 4_096 * 3 + 1_234)],
  ["cut within its header", (file) => truncateSync(file, 50)],
  ["with its first page zeroed", (file) => overwrite(file, 0, new Uint8Array(4_096))],
  ["with a page zeroed in the middle", (file) => zeroPages(file, 0.5, 1)],
  ["with half of its pages zeroed", (file) => zeroPages(file, 0.25, 0.5)],
  ["with noise in the middle", (file) => overwrite(file, middleOf(file), new Uint8Array(20_000).fill(0xa5))],
];

function middleOf(file: string): number {
  return Math.floor(statSync(file).size / 2 / 4_096) * 4_096;
}

function overwrite(file: string, offset: number, bytes: Uint8Array): void {
  const content = readFileSync(file);
  content.set(bytes, offset);
  writeFileSync(file, content);
}

/** A share of the pages from a place in the file, or one page. */
function zeroPages(file: string, from: number, share: number): void {
  const pages = Math.floor(statSync(file).size / 4_096);
  const count = share === 1 ? 1 : Math.floor(pages * share);
  overwrite(file, Math.floor(pages * from) * 4_096, new Uint8Array(count * 4_096));
}

test.each(DAMAGES)("a database %s is found to be damaged, in our words", async (_what, damage) => {
  using folder = tempFolder();
  const file = `${folder.path}/sessions.db`;
  await filledLedger(file);
  damage(file);
  const before = readFileSync(file, "base64");
  const findings: unknown[] = [];
  try {
    const ledger = openLedger(file, COMMAND);
    try {
      findings.push(...(await ledger.check()));
      await ledger.listEvents({ limit: 999 });
    } finally {
      ledger.close();
    }
  } catch (error) {
    expect(error).toMatchObject({ name: "OverseerError", code: "database_corrupt" });
    findings.push(error);
  }
  expect(findings).not.toEqual([]);
  expect(readFileSync(file, "base64")).toBe(before);
});

test.each(OPENERS)(
  "%s that is an empty file, or none, is made new, by a hook as well",
  async (_name, open) => {
    for (const options of [COMMAND, HOOK]) {
      using folder = tempFolder();
      open(folder.write("empty.db", ""), options).close();
      open(`${folder.path}/missing.db`, options).close();
      for (const name of ["empty.db", "missing.db"]) {
        expect(pragma(`${folder.path}/${name}`, "user_version")).toBeGreaterThan(0);
        expect(pragma(`${folder.path}/${name}`, "journal_mode")).toBe("wal");
      }
    }
  },
);

test.each(OPENERS)("%s that is a folder, or lies in none, cannot be written", (_name, open) => {
  using folder = tempFolder();
  mkdirSync(`${folder.path}/x.db`);
  expect(codeOf(() => open(`${folder.path}/x.db`, COMMAND))).toBe("database_unwritable");
  expect(codeOf(() => open(`${folder.path}/no/such/folder/x.db`, COMMAND))).toBe("database_unwritable");
  expect(snapshot(folder)).toEqual({ "x.db": "a folder" });
});

test("writers have foreign keys on, and what breaks one is undone whole", () => {
  using folder = tempFolder();
  const schema = {
    migrations: [
      "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a INTEGER NOT NULL REFERENCES a (id));",
    ],
  };
  const connection = Connection.open(`${folder.path}/x.db`, schema, COMMAND);
  const insert = () =>
    connection.write(() => {
      connection.run("INSERT INTO a VALUES (1)");
      connection.run("INSERT INTO b VALUES (2)");
    });
  expect(insert).toThrow("FOREIGN KEY");
  expect(connection.all<unknown>("SELECT * FROM a")).toEqual([]);
  connection.write(() => connection.run("INSERT INTO a VALUES (2)"));
  expect(connection.all<unknown>("SELECT * FROM a")).toEqual([{ id: 2 }]);
  connection.close();
});

test("a hook that ends at once leaves what it wrote to the next reader", async () => {
  using folder = tempFolder();
  const file = `${folder.path}/sessions.db`;
  for (let at = 0; at < 3; at++) {
    const hook = openLedger(file, FOR_A_HOOK);
    await hook.appendEvents([{ at, type: "task.queued" }]);
    hook.close();
  }
  expect(statSync(`${file}-wal`).size).toBeGreaterThan(0);
  const ledger = openLedger(file, COMMAND);
  expect((await ledger.listEvents({ limit: 9 })).map(({ at }) => at)).toEqual([0, 1, 2]);
  ledger.close();
});

const LEDGER = JSON.stringify(new URL("../src/store/sqlite/ledger.ts", import.meta.url).pathname);
const WRITER = `
import { openHookLedger } from "../src/store/sqlite/hook-ledger.ts";
import { openLedger } from ${LEDGER};
const [file, startAt, mayUpgrade] = process.argv.slice(2);
while (Date.now() < Number(startAt)) {}
console.log("opening");
const ledger = openLedger(file, { mayUpgrade: mayUpgrade === "yes" });
await ledger.appendEvents([{ at: process.pid, type: "task.queued" }]);
ledger.close();
console.log("written");
`;
/** Takes a lock, says so, and gives it back when its standard input ends. */
const HOLDER = `
import { Database } from "bun:sqlite";
const db = new Database(process.argv[2], { create: true });
db.run(process.argv[3]);
console.log("held");
await Bun.stdin.text();
db.run("ROLLBACK");
db.close();
`;

function start(script: string, ...args: string[]) {
  return Bun.spawn([process.execPath, script, ...args], { stdin: "pipe", stdout: "pipe", stderr: "pipe" });
}

/** The outputs of a process line by line. */
function linesOf(child: ReturnType<typeof start>): AsyncIterator<string, undefined> {
  return (async function* () {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of child.stdout) {
      text += decoder.decode(chunk, { stream: true });
      const lines = text.split("\n");
      text = lines.pop() ?? "";
      yield* lines;
    }
    return undefined;
  })();
}

test(
  "twenty processes that make the same new database at once all succeed, hooks among them",
  async () => {
    using folder = tempFolder();
    const file = `${folder.path}/sessions.db`;
    const script = folder.write("writer.ts", WRITER);
    const startAt = String(Date.now() + 1_000);
    const children = Array.from({ length: 20 }, (_, n) =>
      start(script, file, startAt, n % 2 === 0 ? "yes" : "no"),
    );
    const outcomes = await Promise.all(
      children.map(async (child) => [await child.exited, await new Response(child.stderr).text()]),
    );
    expect(outcomes).toEqual(children.map(() => [0, ""]));
    const ledger = openLedger(file, HOOK);
    const events = await ledger.listEvents({ limit: 99 });
    expect(events.map(({ at }) => at).toSorted()).toEqual(children.map(({ pid }) => pid).toSorted());
    expect(await ledger.check()).toEqual([]);
    ledger.close();
  },
  PATIENCE_MS,
);

test.each([
  ["writes to the database", true, "BEGIN IMMEDIATE"],
  ["has the database to itself", true, "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE"],
  ["is about to make the database", false, "BEGIN IMMEDIATE"],
  ["is making the database", false, "BEGIN EXCLUSIVE; CREATE TABLE half (made TEXT)"],
])(
  "while another process %s, opening and writing wait for it and then succeed",
  async (_what, isMade, lock) => {
    using folder = tempFolder();
    const file = `${folder.path}/sessions.db`;
    if (isMade) openLedger(file, COMMAND).close();
    const holder = start(folder.write("holder.ts", HOLDER), file, lock);
    expect((await linesOf(holder).next()).value).toBe("held");
    const writer = start(folder.write("writer.ts", WRITER), file, "0", "yes");
    const lines = linesOf(writer);
    expect((await lines.next()).value).toBe("opening");
    const enough = performance.now() + 400;
    await until(
      "a writer without patience gave up",
      () => writer.exitCode !== null || performance.now() > enough,
    );
    expect(writer.exitCode).toBeNull();
    holder.stdin.end();
    expect((await lines.next()).value).toBe("written");
    expect([await holder.exited, await writer.exited]).toEqual([0, 0]);
    const ledger = openLedger(file, HOOK);
    expect(await ledger.listEvents({ limit: 9 })).toHaveLength(1);
    ledger.close();
  },
  PATIENCE_MS,
);
