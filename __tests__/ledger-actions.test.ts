import { describe, expect, test } from "bun:test";
import type { NewEvent } from "../src/domain/event.ts";
import type { Ledger, NewTask } from "../src/store/contract.ts";
import { openLedger } from "../src/store/sqlite/ledger.ts";
import { tempFolder } from "./support/temp.ts";

/** The one line that a second backend changes. */
const openBackend = (file: string): Ledger => openLedger(file, { mayUpgrade: true });

function freshLedger() {
  const folder = tempFolder();
  const opened: Ledger[] = [];
  const another = () => {
    const ledger = openBackend(`${folder.path}/sessions.db`);
    opened.push(ledger);
    return ledger;
  };
  return {
    ledger: another(),
    another,
    [Symbol.dispose]() {
      for (const ledger of opened) ledger.close();
      folder.remove();
    },
  };
}

function task(id: string, more: Partial<NewTask> = {}): NewTask {
  const plain = {
    body: "",
    priority: "normal",
    files: [],
    tags: [],
    dependsOn: [],
    at: 1,
    actor: "human",
  } as const;
  return { ...plain, id, title: `title of ${id}`, ...more };
}

describe("an action", () => {
  const plan = (id: string, payload: Record<string, unknown> = {}) => ({
    id,
    kind: "merge",
    subject: "ada",
    payload,
  });
  const event = (at: number): NewEvent => ({ at, type: "session.completing", agent: "ada" });

  test("planned twice is planned once, as it was first", async () => {
    using home = freshLedger();
    await home.ledger.planAction(plan("a-1", { reason: "first" }), event(10));
    await home.ledger.planAction(plan("a-1", { reason: "second" }), event(20));
    expect(await home.another().findAction("a-1")).toEqual({
      ...plan("a-1", { reason: "first" }),
      state: "planned",
      owner: null,
      outcome: null,
      createdAt: 10,
      updatedAt: 10,
    });
    expect(await home.ledger.listEvents({ limit: 9 })).toHaveLength(1);
    expect(await home.ledger.findAction("a-2")).toBeNull();
  });

  test("is taken by one of many", async () => {
    using home = freshLedger();
    await home.ledger.planAction(plan("a-1"), event(10));
    const attempts = [1, 2, 3, 4].map((n) => home.another().takeAction("a-1", null, `${n}:1`, 20));
    const taken = await Promise.all(attempts);
    expect(taken.filter((isMine) => isMine)).toHaveLength(1);
    expect(await home.ledger.findAction("a-1")).toMatchObject({ state: "running", updatedAt: 20 });
  });

  test("is taken from the dead by whoever saw that owner, and by nobody who saw another", async () => {
    using home = freshLedger();
    await home.ledger.planAction(plan("a-1"), event(10));
    await home.ledger.takeAction("a-1", null, "1:1", 20);
    expect(await home.ledger.takeAction("a-1", null, "2:1", 30)).toBe(false);
    expect(await home.ledger.takeAction("a-1", "9:9", "2:1", 30)).toBe(false);
    expect(await home.ledger.takeAction("a-1", "1:1", "2:1", 30)).toBe(true);
    expect(await home.ledger.takeAction("a-1", "1:1", "3:1", 40)).toBe(false);
    expect(await home.ledger.findAction("a-1")).toMatchObject({ owner: "2:1" });
  });

  test("that is over cannot be taken, ended again or planned anew", async () => {
    using home = freshLedger();
    await home.ledger.planAction(plan("a-1"), event(10));
    await home.ledger.takeAction("a-1", null, "1:1", 20);
    await home.ledger.endAction("a-1", "done", "merged", 30);
    expect(await home.ledger.takeAction("a-1", null, "2:1", 40)).toBe(false);
    expect(await home.ledger.takeAction("a-1", "1:1", "2:1", 40)).toBe(false);
    await home.ledger.endAction("a-1", "failed", "too late", 50);
    await home.ledger.planAction(plan("a-1"), event(60));
    expect(await home.ledger.findAction("a-1")).toMatchObject({
      state: "done",
      outcome: "merged",
      owner: null,
      updatedAt: 30,
    });
  });

  test.each(["done", "failed", "unknown"] as const)(
    "that ended as %s is past, with its outcome",
    async (state) => {
      using home = freshLedger();
      await home.ledger.planAction(plan("a-1"), event(10));
      await home.ledger.takeAction("a-1", null, "1:1", 20);
      await home.ledger.endAction("a-1", state, "as it came", 30);
      expect(await home.ledger.openActions("merge")).toEqual([]);
      expect(await home.ledger.pastActions("merge", 9)).toMatchObject([
        { id: "a-1", state, outcome: "as it came", owner: null, updatedAt: 30 },
      ]);
    },
  );

  test("gains what is noted, and keeps what it had", async () => {
    using home = freshLedger();
    await home.ledger.planAction(plan("a-1", { step: "reserve", spec: "a.md" }), event(10));
    await home.ledger.noteAction("a-1", { step: "worktree", pid: 7 }, 20);
    expect(await home.ledger.findAction("a-1")).toMatchObject({
      payload: { step: "worktree", spec: "a.md", pid: 7 },
      updatedAt: 20,
      state: "planned",
    });
  });

  test("is open until it is over; the open ones come oldest first, the past ones newest first", async () => {
    using home = freshLedger();
    for (const [n, id] of ["a-3", "a-1", "a-2", "a-4"].entries())
      await home.ledger.planAction(plan(id), event(10 + n));
    await home.ledger.planAction({ ...plan("b-1"), kind: "spawn" }, event(9));
    await home.ledger.takeAction("a-1", null, "1:1", 20);
    const ids = (actions: { id: string }[]) => actions.map(({ id }) => id);
    expect(ids(await home.ledger.openActions("merge"))).toEqual(["a-3", "a-1", "a-2", "a-4"]);
    await home.ledger.endAction("a-4", "failed", "no", 30);
    await home.ledger.endAction("a-3", "done", "yes", 40);
    expect(ids(await home.ledger.openActions("merge"))).toEqual(["a-1", "a-2"]);
    expect(ids(await home.ledger.pastActions("merge", 9))).toEqual(["a-3", "a-4"]);
    expect(ids(await home.ledger.pastActions("merge", 1))).toEqual(["a-3"]);
    expect(await home.ledger.pastActions("spawn", 9)).toEqual([]);
  });
});

describe("a lease", () => {
  test("is one holder's, who may take it again", async () => {
    using home = freshLedger();
    expect(await home.ledger.takeLease("worktrees", "1:1", null, 100)).toBeNull();
    expect(await home.another().takeLease("worktrees", "2:1", null, 100)).toBe("1:1");
    expect(await home.ledger.takeLease("worktrees", "1:1", null, 200)).toBeNull();
    expect(await home.ledger.takeLease("merge", "2:1", null, 100)).toBeNull();
  });

  test("is taken by one of many", async () => {
    using home = freshLedger();
    const holders = ["1:1", "2:1", "3:1", "4:1"];
    const answers = await Promise.all(
      holders.map((holder) => home.another().takeLease("worktrees", holder, null, 100)),
    );
    expect(answers.filter((answer) => answer === null)).toHaveLength(1);
    expect(new Set(answers).size).toBe(2);
  });

  test("goes from the dead to the first who says so", async () => {
    using home = freshLedger();
    await home.ledger.takeLease("worktrees", "1:1", null, 100);
    expect(await home.ledger.takeLease("worktrees", "2:1", "1:1", 200)).toBeNull();
    expect(await home.ledger.takeLease("worktrees", "3:1", "1:1", 200)).toBe("2:1");
  });

  test("is dropped by its holder alone", async () => {
    using home = freshLedger();
    await home.ledger.takeLease("worktrees", "1:1", null, 100);
    await home.ledger.dropLease("worktrees", "2:1");
    expect(await home.ledger.takeLease("worktrees", "2:1", null, 100)).toBe("1:1");
    await home.ledger.dropLease("worktrees", "1:1");
    expect(await home.ledger.takeLease("worktrees", "2:1", null, 100)).toBeNull();
  });
});

test("turns are given one after another, however many ask at once", async () => {
  using home = freshLedger();
  const ask = (at: number) => home.another().takeTurn("boot", 500, at);
  expect(await ask(10_000)).toBe(0);
  const waits = await Promise.all([ask(10_000), ask(10_000), ask(10_100)]);
  expect(waits.toSorted((a, b) => a - b)).toEqual([500, 1_000, 1_400]);
  expect(await home.ledger.takeTurn("other", 500, 10_000)).toBe(0);
  expect(await ask(60_000)).toBe(0);
});

describe("a claim of a task", () => {
  const claimed: NewEvent = { at: 10, type: "task.claimed", agent: "ada", taskId: "t-1" };
  const released: NewEvent = { at: 20, type: "task.released", agent: "ada", taskId: "t-1" };
  const everything = async (ledger: Ledger) => [
    await ledger.listTasks({}),
    await ledger.listEvents({ limit: 99 }),
  ];
  const typesOf = async (ledger: Ledger, family: string) =>
    (await ledger.listEvents({ type: family, limit: 99 })).map(({ type }) => type);
  const statusOf = async (ledger: Ledger) => (await ledger.findTask("t-1"))?.status;

  test("makes it in progress, also when it is so already", async () => {
    using home = freshLedger();
    await home.ledger.createTask(task("t-1"));
    await home.ledger.claimTask("t-1", 10, claimed);
    expect(await home.ledger.findTask("t-1")).toMatchObject({ status: "in_progress", updatedAt: 10 });
    await home.ledger.claimTask("t-1", 11, claimed);
    expect(await statusOf(home.ledger)).toBe("in_progress");
    expect(await typesOf(home.ledger, "task")).toEqual(["task.created", "task.claimed", "task.claimed"]);
  });

  test("of one that is blocked takes it up again", async () => {
    using home = freshLedger();
    await home.ledger.restore({
      sessions: [],
      events: [],
      tasks: [{ ...task("t-1"), status: "blocked", reason: "no answer" }],
    });
    await home.ledger.claimTask("t-1", 10, claimed);
    expect(await home.ledger.findTask("t-1")).toMatchObject({ status: "in_progress", reason: null });
  });

  test.each(["done", "cancelled"] as const)("of one that is %s is refused", async (status) => {
    using home = freshLedger();
    await home.ledger.restore({
      sessions: [],
      events: [],
      tasks: [{ ...task("t-1"), status, reason: "over" }],
    });
    const before = await everything(home.ledger);
    await expect(home.ledger.claimTask("t-1", 10, claimed)).rejects.toMatchObject({ code: "task_closed" });
    expect(await everything(home.ledger)).toEqual(before);
  });

  test("of one that nobody knows is refused", async () => {
    using home = freshLedger();
    await expect(home.ledger.claimTask("t-1", 10, claimed)).rejects.toMatchObject({ code: "task_unknown" });
    expect(await home.ledger.listEvents({ limit: 9 })).toEqual([]);
  });

  test("of which nothing came makes it ready again", async () => {
    using home = freshLedger();
    await home.ledger.createTask(task("t-1"));
    await home.ledger.claimTask("t-1", 10, claimed);
    await home.ledger.unclaimTask("t-1", "queued", null, 20, released);
    expect(await statusOf(home.ledger)).toBe("queued");
    expect(await typesOf(home.ledger, "task.released")).toHaveLength(1);
  });

  test("that was never made is not taken back", async () => {
    using home = freshLedger();
    await home.ledger.createTask(task("t-1"));
    const before = await everything(home.ledger);
    await home.ledger.unclaimTask("t-1", "queued", null, 20, released);
    expect(await everything(home.ledger)).toEqual(before);
  });

  test("of which nothing came cancels a task that was made for it", async () => {
    using home = freshLedger();
    await home.ledger.createTask(task("t-1"));
    await home.ledger.unclaimTask("t-1", "cancelled", "ada could not be started", 20, released);
    expect(await home.ledger.findTask("t-1")).toMatchObject({
      status: "cancelled",
      reason: "ada could not be started",
      endedAt: 20,
    });
  });

  test.each(["queued", "cancelled"] as const)(
    "given back as %s leaves a task alone that is closed meanwhile",
    async (to) => {
      using home = freshLedger();
      await home.ledger.createTask(task("t-1"));
      await home.ledger.claimTask("t-1", 10, claimed);
      await home.ledger.closeTask("t-1", { reason: "by hand", actor: "human", at: 15 });
      const before = await everything(home.ledger);
      await home.ledger.unclaimTask("t-1", to, "too late", 20, released);
      await home.ledger.unclaimTask("t-lost", to, "unknown", 20, released);
      expect(await everything(home.ledger)).toEqual(before);
    },
  );
});
