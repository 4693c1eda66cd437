import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { type Answer, type TempProject, tempProject } from "./support/cli.ts";

type Which = "sessions.db" | "mail.db";

interface Task {
  id: string;
  title: string;
  body: string;
  status: string;
  reason: string | null;
  dependsOn: string[];
  waitsFor: string[];
}
interface Message {
  id: string;
  subject: string;
  body: string;
  read: boolean;
}
interface Event {
  at: string;
  type: string;
  agent: string | null;
  taskId: string | null;
  data: Record<string, unknown>;
}

let project: TempProject;
beforeEach(async () => {
  project = await tempProject();
});
afterEach(() => project.remove());

const file = (which: Which) => `${project.path}/.overseer/${which}`;
const bytesOf = (which: Which) => readFileSync(file(which));
const homeNames = () => readdirSync(`${project.path}/.overseer`).sort();

async function data<T>(...args: string[]): Promise<T> {
  return (await project.overseer([...args, "--json"])).data<T>();
}

const tasks = async () => (await data<{ tasks: Task[] }>("task", "list", "--all")).tasks;
const mail = async () => (await data<{ messages: Message[] }>("mail", "list", "--limit", "1000")).messages;
const events = async () => (await data<{ events: Event[] }>("events", "--limit", "1000")).events;

/** The whole content in the file itself, so that damage to it is damage to the content. */
function settle(which: Which): Database {
  const database = new Database(file(which), { readwrite: true });
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  return database;
}

const damages: Record<string, (which: Which) => void> = {
  "garbage all over": (which) => {
    settle(which).close();
    writeFileSync(file(which), Buffer.alloc(bytesOf(which).length, "not a database "));
  },
  "a damaged header": (which) => {
    settle(which).close();
    writeFileSync(file(which), Buffer.concat([Buffer.alloc(100, 0xaa), bytesOf(which).subarray(100)]));
  },
  "the second half cut off": (which) => {
    settle(which).close();
    truncateSync(file(which), Math.floor(bytesOf(which).length / 2));
  },
  "one page overwritten": (which) => {
    const database = settle(which);
    const table = which === "mail.db" ? "messages" : "sessions";
    const pages = database.query<{ rootpage: number }, [string]>(
      "SELECT rootpage FROM sqlite_master WHERE name = ?",
    );
    const root = pages.get(table)?.rootpage ?? 0;
    const size = database.query<{ page_size: number }, []>("PRAGMA page_size").get()?.page_size ?? 0;
    database.close();
    const bytes = bytesOf(which);
    bytes.fill(0xaa, (root - 1) * size, root * size);
    writeFileSync(file(which), bytes);
  },
};

function isFixed(answer: Answer, check: string): string {
  const { data: told } = JSON.parse(answer.stdout);
  const finding = told.findings.find((found: { check: string }) => found.check === check);
  expect(finding.verdict).toBe("fixed");
  return finding.detail;
}

describe("a damaged database", () => {
  for (const which of ["sessions.db", "mail.db"] as const) {
    for (const [how, damage] of Object.entries(damages)) {
      test(`${which} with ${how}: commands refuse, leave it alone and name the way out`, async () => {
        await project.register({ name: "ada" });
        await project.overseer(["mail", "send", "--to", "human", "--subject", "x"]);
        damage(which);
        const before = bytesOf(which);
        for (const args of [...(which === "mail.db" ? [] : [["status"]]), ["mail", "check"]]) {
          const refused = await project.overseer([...args, "--json"]);
          expect(refused.exitCode).toBe(1);
          expect(refused.error()).toMatchObject({ code: "database_corrupt", hint: "overseer doctor --fix" });
          expect(refused.error().message).toContain(which);
        }
        const sick = await project.overseer(["doctor"]);
        expect(sick.exitCode).toBe(1);
        expect(sick.stdout).toMatch(/^broken +(ledger|mail) .*\n +next: overseer doctor --fix$/m);
        expect(bytesOf(which).equals(before)).toBe(true);
        expect(homeNames().filter((name) => name.includes("corrupt"))).toEqual([]);

        isFixed(
          await project.overseer(["doctor", "--fix", "--json"]),
          which === "mail.db" ? "mail" : "ledger",
        );
        const [aside, ...more] = homeNames().filter((name) => name.includes(".db.corrupt-"));
        expect(more).toEqual([]);
        expect(aside).toStartWith(`${which}.corrupt-`);
        expect(readFileSync(`${project.path}/.overseer/${aside}`).equals(before)).toBe(true);
        expect((await project.overseer(["status"])).exitCode).toBe(0);
        expect((await mail()).map(({ subject }) => subject)).toEqual(["x"]);
      });
    }
  }

  test("is set aside with its -wal and -shm", async () => {
    // Somebody who has it open still: otherwise SQLite itself removes them with the last one to close it.
    using _holder = settle("mail.db");
    await project.overseer(["mail", "send", "--to", "human", "--subject", "x"]);
    writeFileSync(file("mail.db"), "garbage".repeat(5_000));
    await project.overseer(["doctor", "--fix"]);
    const aside = homeNames().filter((name) => name.includes(".corrupt-"));
    expect(aside.map((name) => name.replace(/\.corrupt-.*/, ""))).toEqual([
      "mail.db-shm",
      "mail.db-wal",
      "mail.db",
    ]);
    expect(new Set(aside.map((name) => name.replace(/.*\.corrupt-/, ""))).size).toBe(1);
    expect((await mail()).map(({ subject }) => subject)).toEqual(["x"]);
    const disk = (await project.overseer(["doctor"])).stdout;
    expect(disk).toMatch(/^warning +disk /m);
  });
});

describe("after doctor --fix", () => {
  const BODY = `${"é".repeat(30_000)}\n"quoted" \\ \u2028 end`;

  async function live(): Promise<string> {
    const create = async (title: string, ...more: string[]) =>
      (await data<{ task: Task }>("task", "create", title, ...more)).task.id;
    const [a, b] = [
      await create("A", "--body", "text of A", "--tag", "x", "--files", "src"),
      await create("B"),
    ];
    const c = await create("C", "--depends", a, "--priority", "high");
    await create("D", "--depends", `${b},${c}`);
    await data("task", "close", a, "--reason", "made it");
    const token = await project.register({
      name: "ada",
      taskId: c,
      branch: "overseer/ada/c",
      fileScope: ["src"],
    });
    await project.register({ name: "bob", capability: "scout", parent: "ada", depth: 1 });
    const log = (event: string, agent: string) =>
      project.overseer(["log", event, "--agent", agent], {
        stdin: JSON.stringify({ session_id: `c-${agent}` }),
      });
    await log("session-start", "ada");
    await log("session-end", "bob");
    const send = (to: string, subject: string) =>
      project.overseer(["mail", "send", "--to", to, "--subject", subject, "--body", "-"], { stdin: BODY });
    await send("ada", "read by hand");
    await project.overseer(["mail", "check"], { env: { OVERSEER_TOKEN: token } });
    await send("human", "unread");
    await send("ada", "unread too");
    return token;
  }

  test("tasks, sessions and events are back, and a live worker's token still works", async () => {
    const token = await live();
    const before = {
      tasks: await tasks(),
      events: await events(),
      status: await data<Record<string, unknown>>("status"),
    };
    damages["garbage all over"]?.("sessions.db");
    const detail = isFixed(await project.overseer(["doctor", "--fix", "--json"]), "ledger");
    expect(detail).toContain("4 tasks, 2 sessions");

    const known = ({ id, title, body, status, reason, dependsOn, waitsFor }: Task) => ({
      ...{ id, title, body, status, reason, dependsOn, waitsFor },
    });
    expect((await tasks()).map(known)).toEqual(before.tasks.map(known));
    const agents = (status: Record<string, unknown>) =>
      (status.agents as Record<string, unknown>[]).map(
        ({ cause: _, lastActivityAt: _at, ...agent }) => agent,
      );
    expect(agents(await data("status"))).toEqual(agents(before.status));

    const told = (list: Event[]) =>
      list
        .filter(({ type }) => !type.startsWith("store."))
        .map(({ at, type, agent, taskId, data: about }) => {
          const { from: _from, status: _status, ...rest } = about; // of a closed task: only one of them has which
          return JSON.stringify([at, type, agent, taskId, Object.entries(rest).sort()]);
        })
        .sort();
    expect(told(await events())).toEqual(told(before.events));
    expect((await events()).map(({ type }) => type)).toContain("store.restored");

    const env = { OVERSEER_TOKEN: token };
    const sent = await project.overseer(
      ["mail", "send", "--to", "human", "--subject", "still me", "--json"],
      { env },
    );
    expect(sent.data<{ messages: { from: string }[] }>().messages[0]?.from).toBe("ada");
    const b = before.tasks.find(({ title }) => title === "B")?.id ?? "";
    const closed = await data<{ task: Task; queued: string[] }>("task", "close", b, "--reason", "x");
    expect(closed.queued).toEqual([]);
  });

  test("mail is back: what was unread is unread, what was read is read, and bodies are whole", async () => {
    const token = await live();
    const before = await mail();
    damages["garbage all over"]?.("mail.db");
    isFixed(await project.overseer(["doctor", "--fix", "--json"]), "mail");
    const after = await mail();
    expect(after).toEqual(before);
    expect(after.map(({ read }) => read)).toEqual([true, false, false]);
    expect(after.map(({ body }) => body)).toEqual([BODY, BODY, BODY]);
    const shown = await project.overseer(["mail", "check", "--json"], { env: { OVERSEER_TOKEN: token } });
    expect(shown.data<{ messages: Message[] }>().messages.map(({ subject }) => subject)).toEqual([
      "unread too",
    ]);
  });

  test("both at once are back, and a line of the logs that was cut off is passed over", async () => {
    await live();
    const before = { tasks: (await tasks()).map(({ id }) => id), mail: (await mail()).map(({ id }) => id) };
    for (const which of ["sessions.db", "mail.db"] as const) damages["a damaged header"]?.(which);
    const journal = `${project.path}/.overseer/logs/journal.ndjson`;
    writeFileSync(
      journal,
      `not JSON\n${readFileSync(journal, "utf8")}{"at":"2026-01-01T00:00:00.000Z","type":"task.cr`,
    );
    const fixed = await project.overseer(["doctor", "--fix", "--json"]);
    isFixed(fixed, "ledger");
    isFixed(fixed, "mail");
    expect((await tasks()).map(({ id }) => id).sort()).toEqual(before.tasks.sort());
    expect((await mail()).map(({ id }) => id)).toEqual(before.mail);
  });

  test("a second --fix finds nothing to do", async () => {
    await live();
    damages["garbage all over"]?.("sessions.db");
    await project.overseer(["doctor", "--fix"]);
    const [before, names] = [await tasks(), homeNames()];
    await project.overseer(["doctor", "--fix"]);
    expect(await tasks()).toEqual(before);
    expect(homeNames()).toEqual(names);
  });
});

describe("a database of a newer overseer", () => {
  for (const which of ["sessions.db", "mail.db"] as const) {
    test(`${which} is refused by commands and by doctor --fix, and left byte for byte`, async () => {
      const database = settle(which);
      database.run("PRAGMA user_version = 99");
      database.run("PRAGMA wal_checkpoint(TRUNCATE)");
      database.close();
      const before = bytesOf(which);
      const refused = await project.overseer(["status", "--json"]);
      expect(refused.exitCode).toBe(1);
      expect(refused.error()).toMatchObject({ code: "database_newer" });
      expect(refused.error().message).toContain("99");
      for (const args of [["doctor"], ["doctor", "--fix"], ["init"]]) {
        expect((await project.overseer(args)).exitCode).toBe(1);
      }
      expect(bytesOf(which).equals(before)).toBe(true);
      expect(homeNames().filter((name) => name.includes("corrupt"))).toEqual([]);
    });
  }
});
