import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { closeSync, openSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathsOf } from "../src/effects/paths.ts";
import { openMail } from "../src/store/sqlite/mail.ts";
import { cleanEnvironment, OVERSEER, overseer } from "./support/cli.ts";
import { type TempRepo, tempRepo } from "./support/temp.ts";
import { type Life, runCrew } from "./support/torture/crew.ts";
import {
  damageIn,
  eventCounts,
  eventInDoubt,
  expectedMail,
  failuresIn,
  keyOf,
  pictureOf,
  printedBy,
  printedLastBy,
  printersByMail,
  recordedBy,
  removeDatabases,
  slowestOf,
  unreadIn,
  withLedger,
  withMail,
  workplace,
} from "./support/torture/evidence.ts";
import {
  bodyOf,
  EVENTS,
  idOf,
  type Job,
  MAILS,
  nameOf,
  type Printed,
  RECEIVERS,
  SENDERS,
  subjectOf,
} from "./support/torture/plan.ts";
import { until } from "./support/until.ts";

const TIMEOUT_MS = 120_000;
const BUSY = /database is locked|SQLITE_BUSY|database_locked|in use by another process/i;

const senders = Array.from({ length: SENDERS }, (_, at) => nameOf("sender", at));
const everyEvent = senders.flatMap((name) => Array.from({ length: EVENTS }, (_, n) => `${name} ${n}`)).sort();

interface Division {
  /** How many receivers check one inbox. */
  sharing: number;
  /** Every second sender sends with `overseer mail send`; its ids are random. */
  hasCommands: boolean;
}

function jobsIn(root: string, { sharing, hasCommands }: Division): Job[] {
  const place = { root, go: `${root}/go`, done: `${root}/done` };
  const inboxes = Array.from({ length: RECEIVERS / sharing }, (_, at) => nameOf("inbox", at));
  const inboxAt = (at: number) => inboxes[at % inboxes.length] ?? "nobody";
  const sending = senders.map((name, at): Job => {
    const recipients = [0, 3, 7, 12].map((step) => inboxAt(at + step));
    const way = hasCommands && at % 2 === 1 ? "command" : "store";
    return { ...place, role: "sender", name, recipients, way, nextMail: 0, nextEvent: 0 };
  });
  const receiving = Array.from({ length: RECEIVERS }, (_, at): Job => {
    return { ...place, role: "receiver", name: nameOf("receiver", at), inbox: inboxAt(at) };
  });
  return [...sending, ...receiving];
}

/** The moments of the kills are never the same again, but the choices are. */
const seed = Number(process.env.TORTURE_SEED ?? Math.floor(Math.random() * 2 ** 32));
console.log(`the kills: TORTURE_SEED=${seed}`);

const numberIn = (subject: string) => Number(subject.slice(subjectOf(0).length - 1));

describe("64 processes that meet databases which do not exist yet", () => {
  let repo: TempRepo;
  let jobs: Job[];
  let lives: Life[];

  beforeAll(async () => {
    repo = await workplace();
    jobs = jobsIn(repo.path, { sharing: 1, hasCommands: true });
    lives = await runCrew({ jobs, go: `${repo.path}/go`, done: `${repo.path}/done` });
    console.log(slowestOf(lives));
  }, TIMEOUT_MS);
  afterAll(() => repo.remove());

  test("none of them fails, waits in vain for a lock or damages anything", async () => {
    expect(lives.length).toBe(SENDERS + RECEIVERS);
    expect(failuresIn(repo.path, lives)).toEqual([]);
    expect(lives.filter((life) => BUSY.test(JSON.stringify(life)))).toEqual([]);
    expect(await damageIn(repo.path)).toEqual([]);
  });

  test("every mail is printed exactly once, whole, and is read then", async () => {
    const printed = lives.flatMap(printedBy);
    expect(printed.map(keyOf).sort()).toEqual(expectedMail(jobs));
    for (const { from, subject, body } of printed) expect(body).toBe(bodyOf(from, numberIn(subject)));
    expect(await unreadIn(repo.path)).toEqual([]);
  });

  test("every tool event is recorded exactly once", async () => {
    const counts = await eventCounts(repo.path);
    expect([...counts.keys()].sort()).toEqual(everyEvent);
    expect([...counts].filter(([, count]) => count !== 1)).toEqual([]);
  });

  test("what one sender writes to one recipient is printed in the order in which it was sent", () => {
    for (const life of lives) {
      const bySender = Map.groupBy(printedBy(life), (mail) => mail.from);
      for (const mails of bySender.values()) {
        const numbers = mails.map((mail) => numberIn(mail.subject));
        expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
      }
    }
  });
});

/**
 * Which mails a killed sender had committed cannot be asked of it, so their ids are made from its name and a number, and
 * its next life sends the last ones again under the same ids. In the end every mail has been committed, by a life that
 * could report it or by one that could not, and every one of them must have been printed.
 */
describe("64 processes of which one is killed every 50 ms", () => {
  let repo: TempRepo;
  let jobs: Job[];
  let lives: Life[];

  beforeAll(async () => {
    repo = await workplace();
    jobs = jobsIn(repo.path, { sharing: 2, hasCommands: false });
    const files = { go: `${repo.path}/go`, done: `${repo.path}/done` };
    const kills = { random: randomFrom(seed), everyMs: 50, afterPrinting: 0.2, perRole: 6 };
    lives = await runCrew({ jobs, ...files, kills });
    const killed = lives.filter((life) => life.end?.wasKilled).length;
    const again = [...printersByMail(lives).values()].filter((printers) => printers.length > 1).length;
    console.log(`${killed} killed, ${again} mails printed again; ${slowestOf(lives)}`);
  }, TIMEOUT_MS);
  afterAll(() => repo.remove());

  test("only the killed fail, and their death locks and damages nothing", async () => {
    expect(lives.filter((life) => life.end?.wasKilled).length).toBeGreaterThan(0);
    expect(failuresIn(repo.path, lives)).toEqual([]);
    expect(lives.filter((life) => BUSY.test(JSON.stringify(life)))).toEqual([]);
    expect(await damageIn(repo.path)).toEqual([]);
  });

  test("no mail is lost: what was sent has been printed and is read", async () => {
    const printed = new Set(lives.flatMap(printedBy).map(keyOf));
    expect([...printed].sort()).toEqual(expectedMail(jobs));
    expect(await unreadIn(repo.path)).toEqual([]);
  });

  test("a mail that two lives of a sender have sent is one mail", async () => {
    const messages = await withMail(repo.path, (mail) => mail.listMessages({ limit: 10_000 }));
    const expected = senders.flatMap((name) => Array.from({ length: MAILS }, (_, n) => idOf(name, n)));
    expect(messages.map(({ id }) => id).sort()).toEqual(expected.sort());
  });

  test("only what a process printed last before it was killed is printed again, by another one", () => {
    for (const [id, printers] of printersByMail(lives)) {
      expect(new Set(printers).size).toBe(printers.length);
      const others = printers.filter((life) => !(life.end?.wasKilled && printedLastBy(life).has(id)));
      if (printers.length > 1 && others.length > 1) {
        throw new Error(`${id} was printed by ${others.map((life) => `${life.job.name} ${life.mark}`)}`);
      }
    }
  });

  test("every event that was reported is recorded, and again only where a kill came before the report", async () => {
    const counts = await eventCounts(repo.path);
    expect([...counts.keys()].sort()).toEqual(everyEvent);
    expect(lives.flatMap(recordedBy).sort()).toEqual(everyEvent);
    const inDoubt = lives.flatMap(eventInDoubt);
    for (const [event, count] of counts) {
      expect(count).toBeLessThanOrEqual(1 + inDoubt.filter((doubtful) => doubtful === event).length);
    }
  });
});

test(
  "databases whose makers are killed are made by the others",
  async () => {
    using repo = await workplace();
    const { path: root } = repo;
    const files = { go: `${root}/go`, done: `${root}/done` };
    const jobs = jobsIn(root, { sharing: RECEIVERS, hasCommands: false }).slice(-6);
    const random = randomFrom(seed);
    for (let round = 0; round < 10; round++) {
      removeDatabases(root);
      rmSync(files.go, { force: true });
      // With nobody left to send, a receiver makes what is missing, looks once and ends.
      repo.write("done", "");
      const kills = { random, everyMs: 3, afterPrinting: 0, perRole: 2 };
      const lives = await runCrew({ jobs, ...files, kills });
      expect(failuresIn(root, lives)).toEqual([]);
      expect(await damageIn(root)).toEqual([]);
      expect(await withLedger(root, (ledger) => ledger.currentSessions())).toHaveLength(1);
    }
  },
  TIMEOUT_MS,
);

describe("checks of one inbox", () => {
  test("eight at once print every one of 200 mails once", async () => {
    using repo = await workplace();
    const ids = await fillInbox(repo.path, 200, 750);
    const checks = Array.from({ length: 8 }, (_, at) => new HeldCheck(repo.path, at));
    // Nearly all of them have claimed and none of those has marked anything read: they can go no further.
    await until("every mail is claimed", async () => !(await inboxIn(repo.path)).hasUnread);
    const printed = await Promise.all(checks.map((check) => check.readAll()));
    expect(printed.flatMap(idsIn).sort()).toEqual(ids.sort());
    expect(await Promise.all(checks.map((check) => check.ended))).toEqual(Array(8).fill(0));
    expect(await unreadIn(repo.path)).toEqual([]);
  });

  test("one that is killed while its reader does not read leaves its mail to the next", async () => {
    using repo = await workplace();
    const ids = await fillInbox(repo.path, 1, 20_000);
    const check = new HeldCheck(repo.path, 0);
    await until("the check has claimed the mail", async () => (await inboxIn(repo.path)).claims.length > 0);
    await until("the check can go no further", () => check.isStuck());
    await check.kill();
    const next = await overseer(repo.path, CHECK);
    expect(idsIn(next.stdout)).toEqual(ids);
  });
});

const CHECK = ["mail", "check", "--agent", "orchestrator", "--json"];

/** In JSON each character of a body is six, so that what one check prints is more than a pipe holds. */
async function fillInbox(root: string, count: number, length: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, n) => idOf("human", n));
  const address = { from: "human", to: "orchestrator", type: "status", priority: "normal" } as const;
  const text = { body: "\u0001".repeat(length), createdAt: 1 };
  const mail = openMail(pathsOf(root).mail, { mayUpgrade: true });
  await mail.send(ids.map((id, n) => ({ id, ...address, ...text, subject: subjectOf(n), threadId: id })));
  mail.close();
  return ids;
}

function inboxIn(root: string) {
  return withMail(root, (mail) => mail.glance("orchestrator"));
}

function idsIn(stdout: string): string[] {
  const { data }: { data: { messages: Printed[] } } = JSON.parse(stdout);
  return data.messages.map(({ id }) => id);
}

/** A check that prints into a pipe which nobody reads yet. */
class HeldCheck {
  readonly ended: Promise<number>;
  readonly #child: Bun.Subprocess;
  readonly #reading: number;
  #restfulLooks = 0;

  constructor(root: string, at: number) {
    const fifo = join(root, `pipe-${at}`);
    Bun.spawnSync(["mkfifo", fifo]);
    // First in both directions: opening one end alone would wait for the other.
    const both = openSync(fifo, "r+");
    const writing = openSync(fifo, "w");
    this.#reading = openSync(fifo, "r");
    this.#child = Bun.spawn([OVERSEER, ...CHECK], { cwd: root, env: cleanEnvironment(), stdout: writing });
    this.ended = this.#child.exited;
    closeSync(both);
    closeSync(writing);
  }

  /** Asleep whenever one looks: it waits for the reader. */
  isStuck(): boolean {
    const { stdout } = Bun.spawnSync(["ps", "-o", "state=", "-p", String(this.#child.pid)]);
    this.#restfulLooks = stdout.toString().startsWith("S") ? this.#restfulLooks + 1 : 0;
    return this.#restfulLooks >= 10;
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.ended;
    closeSync(this.#reading);
  }

  async readAll(): Promise<string> {
    const reader = Bun.spawn(["cat"], { stdin: this.#reading });
    closeSync(this.#reading);
    return await reader.stdout.text();
  }
}

/** In formats that overseer would not write itself. */
const GUESTS: Record<string, string> = {
  ".claude/settings.local.json":
    '{"model":"opus",\n\n   "hooks": {"Stop": [{"hooks": [{"type":"command","command":"true"}]}]}}',
  ".claude/CLAUDE.md": "# Mine\r\n\r\nno newline at the end",
};

describe("24 times overseer init in one repository at once", () => {
  test.each([
    ["without a .claude folder", {}],
    ["beside settings and instructions of the user", GUESTS],
  ])(
    "%s is as good as one",
    async (_, guests) => {
      using repo = tempRepo();
      const prepare = () => {
        for (const folder of [".overseer", ".claude"])
          rmSync(join(repo.path, folder), { recursive: true, force: true });
        for (const [name, content] of Object.entries(guests)) repo.write(name, content);
      };
      prepare();
      const before = pictureOf(repo.path);
      expect((await overseer(repo.path, ["init"])).exitCode).toBe(0);
      const afterOne = pictureOf(repo.path);

      prepare();
      const inits = await Promise.all(Array.from({ length: 24 }, () => overseer(repo.path, ["init"])));
      expect(inits.filter(({ exitCode, stderr }) => exitCode !== 0 || stderr !== "")).toEqual([]);
      expect(pictureOf(repo.path)).toEqual(afterOne);

      expect((await overseer(repo.path, ["uninstall"])).exitCode).toBe(0);
      expect(pictureOf(repo.path)).toEqual(before);
    },
    TIMEOUT_MS,
  );
});

/** Small, and the same numbers for the same seed on every machine. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
