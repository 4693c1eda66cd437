import { expect, test } from "bun:test";
import fc from "fast-check";
import type { NewEvent } from "../src/domain/event.ts";
import type { Ledger, NewTask } from "../src/store/contract.ts";
import { openLedger } from "../src/store/sqlite/ledger.ts";
import { tempFolder } from "./support/temp.ts";

/** The one line that a second backend changes. */
const openBackend = (file: string): Ledger => openLedger(file, { mayUpgrade: true });

function freshLedger() {
  const folder = tempFolder();
  const ledger = openBackend(`${folder.path}/sessions.db`);
  return {
    ledger,
    [Symbol.dispose]() {
      ledger.close();
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

const close = (ledger: Ledger, id: string, at = 100) =>
  ledger.closeTask(id, { reason: `${id} is done`, actor: "ada", at });
const ready = async (ledger: Ledger) => (await ledger.listTasks({ status: "queued" })).map(({ id }) => id);

test("a task without dependencies is ready at once and has everything it was given", async () => {
  using home = freshLedger();
  const given = {
    title: "a title",
    body: "a body\n",
    files: ["a.ts", "b/"],
    tags: ["ui"],
    priority: "high",
  } as const;
  const created = await home.ledger.createTask(task("t-1", { ...given, at: 5 }));
  expect(created).toEqual({
    ...given,
    files: [...given.files],
    tags: [...given.tags],
    id: "t-1",
    kind: "task",
    parentId: null,
    status: "queued",
    dependsOn: [],
    waitsFor: [],
    reason: null,
    createdAt: 5,
    updatedAt: 5,
    endedAt: null,
    version: 1,
  });
  expect(await home.ledger.findTask("t-1")).toEqual(created);
  expect(await home.ledger.findTask("t-2")).toBeNull();
  expect(await home.ledger.listEvents({ limit: 9 })).toMatchObject([
    {
      at: 5,
      type: "task.created",
      taskId: "t-1",
      data: { actor: "human", title: "a title", status: "queued" },
    },
  ]);
});

test("an id that exists is refused and the first task stays as it is", async () => {
  using home = freshLedger();
  const first = await home.ledger.createTask(task("t-1"));
  await expect(home.ledger.createTask(task("t-1", { title: "other" }))).rejects.toMatchObject({
    code: "task_exists",
  });
  expect(await home.ledger.findTask("t-1")).toEqual(first);
});

test("an unknown dependency changes nothing", async () => {
  using home = freshLedger();
  await home.ledger.createTask(task("t-1"));
  const broken = task("t-2", { dependsOn: ["t-1", "t-lost"] });
  await expect(home.ledger.createTask(broken)).rejects.toMatchObject({ code: "dependency_unknown" });
  await expect(home.ledger.createTask(task("t-3", { dependsOn: ["t-3"] }))).rejects.toMatchObject({
    code: "dependency_unknown",
  });
  expect(await home.ledger.listTasks({})).toHaveLength(1);
  expect(await home.ledger.listEvents({ limit: 9 })).toHaveLength(1);
  expect((await close(home.ledger, "t-1")).queued).toEqual([]);
});

test("the ready queue is by priority, then by age", async () => {
  using home = freshLedger();
  const priorities = ["normal", "low", "urgent", "high", "normal", "urgent", "low", "high"] as const;
  for (const [n, priority] of priorities.entries())
    await home.ledger.createTask(task(`t-${n}`, { priority }));
  expect(await ready(home.ledger)).toEqual(["t-2", "t-5", "t-3", "t-7", "t-0", "t-4", "t-1", "t-6"]);
});

test("lists are filtered by status, openness and length, open tasks first", async () => {
  using home = freshLedger();
  await home.ledger.createTask(task("t-1", { priority: "urgent" }));
  await home.ledger.createTask(task("t-2"));
  await home.ledger.createTask(task("t-3", { dependsOn: ["t-2"], priority: "high" }));
  await close(home.ledger, "t-1");
  const ids = async (filter: Parameters<Ledger["listTasks"]>[0]) =>
    (await home.ledger.listTasks(filter)).map(({ id }) => id);
  expect(await ids({})).toEqual(["t-3", "t-2", "t-1"]);
  expect(await ids({ isOpen: true })).toEqual(["t-3", "t-2"]);
  expect(await ids({ status: "todo" })).toEqual(["t-3"]);
  expect(await ids({ status: "done" })).toEqual(["t-1"]);
  expect(await ids({ status: "done", isOpen: true })).toEqual([]);
  expect(await ids({ limit: 2 })).toEqual(["t-3", "t-2"]);
});

test("a closed task keeps its reason and who said so", async () => {
  using home = freshLedger();
  await home.ledger.createTask(task("t-1"));
  const { task: closed, queued } = await close(home.ledger, "t-1", 50);
  expect(closed).toMatchObject({
    status: "done",
    reason: "t-1 is done",
    endedAt: 50,
    updatedAt: 50,
    version: 2,
  });
  expect(queued).toEqual([]);
  expect(await home.ledger.findTask("t-1")).toEqual(closed);
  expect(await home.ledger.listEvents({ type: "task.closed", limit: 9 })).toMatchObject([
    { at: 50, taskId: "t-1", data: { actor: "ada", reason: "t-1 is done", from: "queued" } },
  ]);
});

test("closing twice is refused and tells nothing twice; an unknown task is unknown", async () => {
  using home = freshLedger();
  await home.ledger.createTask(task("t-1"));
  await close(home.ledger, "t-1", 50);
  const before = await home.ledger.findTask("t-1");
  await expect(close(home.ledger, "t-1", 60)).rejects.toMatchObject({ code: "task_closed" });
  await expect(close(home.ledger, "t-2", 60)).rejects.toMatchObject({ code: "task_unknown" });
  expect(await home.ledger.findTask("t-1")).toEqual(before);
  expect(await home.ledger.listEvents({ type: "task.closed", limit: 9 })).toHaveLength(1);
});

test("closing queues the task that waited for it, at once and once", async () => {
  using home = freshLedger();
  await home.ledger.createTask(task("t-1"));
  const waiting = await home.ledger.createTask(task("t-2", { dependsOn: ["t-1", "t-1"] }));
  expect(waiting).toMatchObject({ status: "todo", dependsOn: ["t-1"], waitsFor: ["t-1"] });
  expect((await close(home.ledger, "t-1", 50)).queued).toEqual(["t-2"]);
  expect(await home.ledger.findTask("t-2")).toMatchObject({
    status: "queued",
    dependsOn: ["t-1"],
    waitsFor: [],
    updatedAt: 50,
    version: 2,
  });
  expect(await home.ledger.listEvents({ type: "task.queued", limit: 9 })).toMatchObject([
    { at: 50, taskId: "t-2", data: { after: "t-1" } },
  ]);
  expect(await home.ledger.createTask(task("t-3", { dependsOn: ["t-1"] }))).toMatchObject({
    status: "queued",
  });
});

test("in a diamond the last task waits for both sides", async () => {
  using home = freshLedger();
  await home.ledger.createTask(task("top"));
  await home.ledger.createTask(task("left", { dependsOn: ["top"] }));
  await home.ledger.createTask(task("right", { dependsOn: ["top"] }));
  await home.ledger.createTask(task("bottom", { dependsOn: ["left", "right"] }));
  expect((await close(home.ledger, "top")).queued).toEqual(["left", "right"]);
  expect((await close(home.ledger, "left")).queued).toEqual([]);
  expect(await home.ledger.findTask("bottom")).toMatchObject({ status: "todo", waitsFor: ["right"] });
  expect((await close(home.ledger, "right")).queued).toEqual(["bottom"]);
});

test("a waiting task that is closed early is not queued by its dependency, and frees its own dependants", async () => {
  using home = freshLedger();
  await home.ledger.createTask(task("t-1"));
  await home.ledger.createTask(task("t-2", { dependsOn: ["t-1"] }));
  await home.ledger.createTask(task("t-3", { dependsOn: ["t-2"] }));
  expect((await close(home.ledger, "t-2")).queued).toEqual(["t-3"]);
  expect((await close(home.ledger, "t-1")).queued).toEqual([]);
  expect(await home.ledger.findTask("t-2")).toMatchObject({ status: "done" });
});

test("whatever the dependencies and the order of closing, each task is queued exactly once, when all it needs is done", async () => {
  const graph = fc.uniqueArray(fc.nat(7), { minLength: 1, maxLength: 8 }).chain((order) =>
    fc.record({
      order: fc.constant(order),
      edges: fc.array(fc.tuple(fc.nat(7), fc.nat(7)), { maxLength: 14 }),
    }),
  );
  await fc.assert(
    fc.asyncProperty(graph, async ({ order, edges }) => {
      using home = freshLedger();
      const needs = (n: number) =>
        new Set(edges.filter(([from, to]) => to === n && from < n).map(([from]) => from));
      for (let n = 0; n < 8; n++) {
        await home.ledger.createTask(task(`t-${n}`, { dependsOn: [...needs(n)].map((from) => `t-${from}`) }));
      }
      const done = new Set<number>();
      for (const n of order) {
        const wasReady = new Set(await ready(home.ledger));
        const { queued } = await close(home.ledger, `t-${n}`);
        done.add(n);
        const now = [0, 1, 2, 3, 4, 5, 6, 7]
          .filter((m) => !done.has(m) && needs(m).isSubsetOf(done))
          .map((m) => `t-${m}`);
        expect(new Set(await ready(home.ledger))).toEqual(new Set(now));
        expect(queued).toEqual(now.filter((id) => !wasReady.has(id)));
      }
      const told = await home.ledger.listEvents({ type: "task.queued", limit: 99 });
      expect(new Set(told.map((event) => event.taskId)).size).toBe(told.length);
    }),
    { numRuns: 40 },
  );
});

test("the overview counts the tasks of every status and starts from nothing", async () => {
  using home = freshLedger();
  const none = { todo: 0, queued: 0, in_progress: 0, blocked: 0, done: 0, cancelled: 0 };
  const empty = { merge: {}, goals: { active: 0, total: 0 }, lastTickAt: null };
  expect(await home.ledger.overview()).toEqual({ tasks: none, ...empty });
  for (const id of ["t-1", "t-2"]) await home.ledger.createTask(task(id));
  await home.ledger.createTask(task("t-3", { dependsOn: ["t-1"] }));
  await home.ledger.closeTask("t-2", { reason: "done", actor: "human", at: 2 });
  expect(await home.ledger.overview()).toEqual({ tasks: { ...none, todo: 1, queued: 1, done: 1 }, ...empty });
});

const EVENTS: NewEvent[] = [
  {
    at: 10,
    type: "session.started",
    agent: "ada",
    sessionId: "s-1",
    taskId: "t-1",
    data: { source: "startup" },
  },
  { at: 20, type: "session.prompted", agent: "ada" },
  { at: 30, type: "session.started", agent: "bob" },
  { at: 40, type: "task.closed", taskId: "t-1", data: { nested: { list: [1, "two", null] } } },
  { at: 50, type: "session.prompted", agent: "ada" },
  { at: 60, type: "session.prompted", agent: "bob" },
];

async function withEvents() {
  const home = freshLedger();
  await home.ledger.appendEvents(EVENTS);
  return home;
}

test("an event comes back as it was appended", async () => {
  using home = await withEvents();
  const stored = await home.ledger.listEvents({ limit: 99 });
  const complete = { agent: null, sessionId: null, taskId: null, data: {} };
  expect(stored).toEqual(EVENTS.map((event, n) => ({ ...complete, ...event, seq: stored[n]?.seq ?? -1 })));
  expect(stored.map(({ seq }) => seq)).toEqual(stored.map(({ seq }) => seq).toSorted((a, b) => a - b));
});

test.each([
  [{ limit: 2 }, [50, 60]],
  [{ limit: 0 }, []],
  [{ agent: "ada", limit: 9 }, [10, 20, 50]],
  [{ agent: "ada", limit: 2 }, [20, 50]],
  [{ agent: "eve", limit: 9 }, []],
  [{ type: "session.started", limit: 9 }, [10, 30]],
  [{ type: "session", limit: 9 }, [10, 20, 30, 50, 60]],
  [{ type: "session", limit: 3 }, [30, 50, 60]],
  [{ type: "task", limit: 9 }, [40]],
  [{ type: "sess", limit: 9 }, []],
  [{ since: 40, limit: 9 }, [40, 50, 60]],
  [{ since: 20, limit: 2 }, [50, 60]],
  [{ since: 61, limit: 9 }, []],
  [{ agent: "ada", type: "session", since: 11, limit: 9 }, [20, 50]],
  [{ agent: "ada", type: "session.prompted", limit: 1 }, [50]],
])("the newest events that match %j, oldest first", async (filter, expected) => {
  using home = await withEvents();
  expect((await home.ledger.listEvents(filter)).map(({ at }) => at)).toEqual(expected);
});

test("whoever follows the events gets what came after the last one seen", async () => {
  using home = await withEvents();
  const seen = (await home.ledger.listEvents({ limit: 1 }))[0]?.seq ?? 0;
  expect(await home.ledger.listEvents({ afterSeq: seen, limit: 9 })).toEqual([]);
  await home.ledger.appendEvents([
    { at: 5, type: "session.ended", agent: "ada" },
    { at: 6, type: "task.queued", taskId: "t-9" },
  ]);
  const fresh = await home.ledger.listEvents({ afterSeq: seen, limit: 9 });
  expect(fresh.map(({ type }) => type)).toEqual(["session.ended", "task.queued"]);
  expect(await home.ledger.listEvents({ afterSeq: seen, type: "task", limit: 9 })).toHaveLength(1);
});

test("events are appended all or none", async () => {
  using home = freshLedger();
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  const batch: NewEvent[] = [
    { at: 1, type: "task.queued" },
    { at: 2, type: "task.queued", data: circular },
  ];
  await expect(home.ledger.appendEvents(batch)).rejects.toThrow();
  expect(await home.ledger.listEvents({ limit: 9 })).toEqual([]);
});

test("compaction counts old events into one milestone per agent and leaves newer ones", async () => {
  using home = await withEvents();
  expect(await home.ledger.compactEvents(50, 1_000)).toEqual({ removed: 4, milestones: 3 });
  const left = await home.ledger.listEvents({ limit: 99 });
  expect(left.filter(({ type }) => type !== "session.milestone").map(({ at }) => at)).toEqual([50, 60]);
  const milestones = left.filter(({ type }) => type === "session.milestone");
  expect(new Map(milestones.map(({ agent, data }) => [agent, data]))).toEqual(
    new Map([
      ["ada", { first: 10, last: 20, counts: { "session.started": 1, "session.prompted": 1 } }],
      ["bob", { first: 30, last: 30, counts: { "session.started": 1 } }],
      [null, { first: 40, last: 40, counts: { "task.closed": 1 } }],
    ]),
  );
  expect(milestones.every(({ at }) => at === 1_000)).toBe(true);
});

test("compaction never compacts milestones, so no count is ever lost", async () => {
  using home = await withEvents();
  await home.ledger.compactEvents(50, 51);
  expect(await home.ledger.compactEvents(50, 52)).toEqual({ removed: 0, milestones: 0 });
  await home.ledger.compactEvents(1_000, 1_001);
  const events = await home.ledger.listEvents({ limit: 99 });
  expect(events.every(({ type }) => type === "session.milestone")).toBe(true);
  const total = events
    .flatMap(({ data }) => Object.values(Object(data.counts)))
    .reduce((sum: number, n) => sum + Number(n), 0);
  expect(total).toBe(EVENTS.length);
});
