import { describe, expect, test } from "bun:test";
import type { EventType, NewEvent } from "../src/domain/event.ts";
import { completionId, type SessionState } from "../src/domain/session.ts";
import type { Ledger, NewMergeEntry, NewSession, NewTask, Reservation } from "../src/store/contract.ts";
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

function worker(name: string, incarnation: number, more: Partial<NewSession> = {}): NewSession {
  return {
    id: `ses-${name}-${incarnation}`,
    name,
    capability: "builder",
    tokenHash: `hash-${name}-${incarnation}`,
    startedAt: incarnation * 1_000,
    logFolder: `${name}/${incarnation}`,
    ...more,
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

function reserving(more: Partial<Reservation> = {}): Reservation {
  return { owner: "100:1", maxConcurrent: 25, newTask: null, mirror: null, notes: {}, ...more };
}

function told(type: EventType, at: number, more: Partial<NewEvent> = {}): NewEvent {
  return { at, type, agent: "ada", sessionId: "ses-ada-1", ...more };
}

/** Everything a refusal must leave as it was. */
async function everything(ledger: Ledger) {
  return {
    sessions: await ledger.currentSessions(),
    tasks: await ledger.listTasks({}),
    events: await ledger.listEvents({ limit: 999 }),
    spawns: [...(await ledger.openActions("spawn")), ...(await ledger.pastActions("spawn", 99))],
    entries: await ledger.mergeEntries({}),
  };
}

async function typesOf(ledger: Ledger, family: string): Promise<string[]> {
  return (await ledger.listEvents({ type: family, limit: 99 })).map(({ type }) => type);
}

/** A worker that has ended in a state, however it got there. */
async function ended(ledger: Ledger, session: NewSession, state: SessionState): Promise<void> {
  const row = { ...session, state, lastActivityAt: session.startedAt };
  await ledger.restore({ sessions: [row], tasks: [], events: [] });
}

const entryOf = (name: string, more: Partial<NewMergeEntry> = {}): NewMergeEntry => ({
  id: `mrg-${name}-1`,
  branch: `overseer/${name}/t-1`,
  commit: "c0ffee",
  into: "main",
  files: ["src/a.ts"],
  ...more,
});

describe("a reservation", () => {
  test("is a session and an action with its id, whose owner is whoever makes the spawn", async () => {
    using home = freshLedger();
    await home.ledger.createTask(task("t-1"));
    const notes = { spec: "docs/spec.md", base: "main" };
    const session = await home.ledger.registerSession(
      worker("ada", 1, { taskId: "t-1" }),
      reserving({ owner: "42:7", notes }),
    );
    expect(session).toMatchObject({ id: "ses-ada-1", state: "booting", taskId: "t-1" });
    const action = {
      id: "ses-ada-1",
      kind: "spawn",
      subject: "ada",
      state: "running",
      owner: "42:7",
      payload: { ...notes, step: "reserve", isNewTask: false },
      outcome: null,
      createdAt: 1_000,
      updatedAt: 1_000,
    };
    expect(await home.another().openActions("spawn")).toEqual([action] as never);
    expect(await home.ledger.findTask("t-1")).toMatchObject({ status: "queued" });
  });

  test("makes its new task in the same step", async () => {
    using home = freshLedger();
    await home.ledger.registerSession(
      worker("ada", 1, { taskId: "t-new" }),
      reserving({ newTask: task("t-new") }),
    );
    expect(await home.ledger.findTask("t-new")).toMatchObject({ status: "queued", title: "title of t-new" });
    expect(await home.ledger.findAction("ses-ada-1")).toMatchObject({ payload: { isNewTask: true } });
    expect(await typesOf(home.ledger, "task")).toEqual(["task.created"]);
  });

  interface Refusal {
    code: string;
    says: RegExp;
    before: (ledger: Ledger) => Promise<unknown>;
    session?: Partial<NewSession>;
    reservation?: Partial<Reservation>;
  }

  const refusals: Record<string, Refusal> = {
    "a name that a live session has": {
      code: "name_taken",
      says: /ada is the name of a live session/,
      before: (ledger) => ledger.registerSession(worker("ada", 0)),
    },
    "more workers than there may be": {
      code: "too_many_workers",
      says: /^2 workers are live already \(bob, eve\), at most 2 may be$/,
      before: async (ledger) => {
        for (const name of ["bob", "eve"]) await ledger.registerSession(worker(name, 0));
      },
      reservation: { maxConcurrent: 2 },
    },
    "an unknown task": {
      code: "task_unknown",
      says: /there is no task t-lost/,
      before: async () => {},
      session: { taskId: "t-lost" },
    },
    "a task that is done": {
      code: "task_closed",
      says: /t-1 is done already/,
      before: async (ledger) => {
        await ledger.createTask(task("t-1"));
        await ledger.closeTask("t-1", { reason: "merged", actor: "human", at: 2 });
      },
      session: { taskId: "t-1" },
    },
    "a task that waits for another": {
      code: "task_waits",
      says: /t-2 waits for t-1/,
      before: async (ledger) => {
        await ledger.createTask(task("t-1"));
        await ledger.createTask(task("t-2", { dependsOn: ["t-1"] }));
      },
      session: { taskId: "t-2" },
    },
    "a task that somebody works on": {
      code: "task_taken",
      says: /bob works on t-1 already/,
      before: async (ledger) => {
        await ledger.createTask(task("t-1"));
        await ledger.registerSession(worker("bob", 0, { taskId: "t-1" }), reserving());
      },
      session: { taskId: "t-1" },
    },
    "a task whose branch waits to land": {
      code: "task_taken",
      says: /t-1 is finished on overseer\/bob\/t-1, which waits to be merged/,
      before: async (ledger) => {
        await ledger.createTask(task("t-1"));
        await ledger.registerSession(worker("bob", 0, { taskId: "t-1" }), reserving());
        const done = { entry: entryOf("bob"), reason: "done", at: 5 };
        await ledger.completeSession("ses-bob-0", done, told("session.completed", 5));
      },
      session: { taskId: "t-1" },
    },
    "files that a live worker has": {
      code: "scope_taken",
      says: /src\/login is bob's, who is booting/,
      before: (ledger) => ledger.registerSession(worker("bob", 0, { fileScope: ["docs", "src/login"] })),
      session: { fileScope: ["src/login/form.ts"] },
    },
    "files of a worker that was stopped with its worktree in place": {
      code: "scope_taken",
      says: /src is bob's, who is stopped/,
      before: (ledger) => ended(ledger, worker("bob", 0, { fileScope: ["src"], worktree: "/w" }), "stopped"),
      session: { fileScope: ["src/*.ts"] },
    },
    "files that wait in the merge queue": {
      code: "scope_taken",
      says: /src is bob's, who is completed/,
      before: async (ledger) => {
        await ledger.registerSession(worker("bob", 0, { fileScope: ["src"] }));
        const done = { entry: entryOf("bob"), reason: "done", at: 5 };
        await ledger.completeSession("ses-bob-0", done, told("session.completed", 5));
      },
      session: { fileScope: ["src/a.ts"] },
    },
    "a new task whose id exists": {
      code: "task_exists",
      says: /there is a task t-1 already/,
      before: (ledger) => ledger.createTask(task("t-1")),
      session: { taskId: "t-1" },
      reservation: { newTask: task("t-1") },
    },
  };

  test.each(Object.entries(refusals))("of %s is refused and changes nothing", async (_, refusal) => {
    using home = freshLedger();
    await refusal.before(home.ledger);
    const before = await everything(home.ledger);
    const session = worker("ada", 1, refusal.session);
    const attempt = home.another().registerSession(session, reserving(refusal.reservation));
    await expect(attempt).rejects.toMatchObject({
      code: refusal.code,
      message: expect.stringMatching(refusal.says),
      hint: refusal.code === "task_exists" ? undefined : expect.any(String),
    });
    expect(await everything(home.ledger)).toEqual(before);
  });

  test("that is refused makes no task either", async () => {
    using home = freshLedger();
    await home.ledger.registerSession(worker("bob", 1, { fileScope: ["src"] }));
    const before = await everything(home.ledger);
    const wanted = { taskId: "t-new", fileScope: ["src/a.ts"] };
    for (const [session, reservation] of [
      [worker("ada", 1, wanted), reserving({ newTask: task("t-new") })],
      [worker("bob", 2, { taskId: "t-new" }), reserving({ newTask: task("t-new") })],
      [worker("ada", 1, { taskId: "t-new" }), reserving({ newTask: task("t-new"), maxConcurrent: 1 })],
      [
        worker("ada", 1, { taskId: "t-new" }),
        reserving({ newTask: task("t-new", { dependsOn: ["t-lost"] }) }),
      ],
    ] as const) {
      await expect(home.ledger.registerSession(session, reservation)).rejects.toBeInstanceOf(Error);
    }
    expect(await everything(home.ledger)).toEqual(before);
  });

  test("counts neither the orchestrators nor those that have ended", async () => {
    using home = freshLedger();
    for (const state of ["completed", "stopped", "failed", "zombie"] as const)
      await ended(home.ledger, worker(state, 1), state);
    const orchestrator = { ...worker("orchestrator", 1), capability: "orchestrator", tokenHash: null };
    await home.ledger.ensureOrchestrator({ ...orchestrator, claudeSessionId: "c-1" });
    const one = reserving({ maxConcurrent: 1 });
    expect(await home.ledger.registerSession(worker("ada", 1), one)).toMatchObject({ state: "booting" });
    await expect(home.ledger.registerSession(worker("bob", 1), one)).rejects.toMatchObject({
      code: "too_many_workers",
      message: "1 worker is live already (ada), at most 1 may be",
    });
  });

  test("of many at once takes no more than there may be", async () => {
    using home = freshLedger();
    const attempts = Array.from({ length: 6 }, (_, n) =>
      home.another().registerSession(worker(`w${n}`, 1), reserving({ maxConcurrent: 4 })),
    );
    const outcomes = await Promise.allSettled(attempts);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(4);
    expect(await home.ledger.liveWorkers(-1)).toHaveLength(4);
  });

  test("of one task by many at once is one worker's", async () => {
    using home = freshLedger();
    await home.ledger.createTask(task("t-1"));
    const attempts = Array.from({ length: 5 }, (_, n) =>
      home.another().registerSession(worker(`w${n}`, 1, { taskId: "t-1" }), reserving()),
    );
    const outcomes = await Promise.allSettled(attempts);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });

  test("takes a task that is in progress, once whoever had it is gone", async () => {
    using home = freshLedger();
    await home.ledger.createTask(task("t-1"));
    await home.ledger.claimTask("t-1", 2, told("task.claimed", 2));
    await ended(home.ledger, worker("bob", 0, { taskId: "t-1" }), "zombie");
    const session = await home.ledger.registerSession(worker("ada", 1, { taskId: "t-1" }), reserving());
    expect(session).toMatchObject({ name: "ada", taskId: "t-1" });
  });

  test("finds no conflict with files that nobody holds any more, or with no files at all", async () => {
    using home = freshLedger();
    await ended(home.ledger, worker("bob", 0, { fileScope: ["src"] }), "failed");
    await ended(home.ledger, worker("eve", 0, { fileScope: ["src"], worktree: "/w" }), "completed");
    await ended(home.ledger, worker("kim", 0, { fileScope: ["src"], worktree: "/k" }), "stopped");
    await home.ledger.releaseWorktree("ses-kim-0", "aborted", told("worktree.removed", 9));
    await home.ledger.registerSession(worker("zoe", 1), reserving());
    const session = await home.ledger.registerSession(worker("ada", 1, { fileScope: ["src"] }), reserving());
    expect(session.fileScope).toEqual(["src"]);
    expect(await home.ledger.registerSession(worker("max", 1), reserving())).toMatchObject({ fileScope: [] });
  });

  test("an older incarnation holds nothing against anybody", async () => {
    using home = freshLedger();
    await ended(home.ledger, worker("bob", 1, { fileScope: ["src"], worktree: "/w" }), "stopped");
    await home.ledger.registerSession(worker("bob", 2, { fileScope: ["docs"] }), reserving());
    const session = await home.ledger.registerSession(worker("ada", 1, { fileScope: ["src"] }), reserving());
    expect(session.fileScope).toEqual(["src"]);
  });

  test("files may be a parent's or a child's, but not a brother's", async () => {
    using home = freshLedger();
    const lead = { capability: "lead", fileScope: ["src"] };
    await home.ledger.registerSession(worker("lead", 1, lead), reserving());
    const child = (name: string, file: string) =>
      home.ledger.registerSession(
        worker(name, 1, { parent: "lead", depth: 1, fileScope: [file] }),
        reserving(),
      );
    expect(await child("ada", "src/a")).toMatchObject({ parent: "lead" });
    expect(await child("bob", "src/b")).toMatchObject({ parent: "lead" });
    await expect(child("eve", "src/a/deep.ts")).rejects.toMatchObject({ code: "scope_taken" });
    const grandchild = worker("kim", 1, { parent: "ada", depth: 2, fileScope: ["src/a/x.ts"] });
    expect(await home.ledger.registerSession(grandchild, reserving())).toMatchObject({ name: "kim" });
    // Another one of that name would be taken for their parent; only the lead itself may come back.
    await home.ledger.endSession(
      "ses-lead-1",
      { state: "stopped", cause: "stopped by human", at: 5 },
      told("session.stopped", 5),
    );
    await home.ledger.endAction("ses-lead-1", "done", "started", 6);
    await expect(home.ledger.registerSession(worker("lead", 2, lead), reserving())).rejects.toMatchObject({
      code: "name_taken",
      message: "ada, bob still work for lead",
    });
    const previous = await home.ledger.currentSession("lead");
    if (!previous) throw new Error("the lead is gone");
    expect(await home.ledger.succeedSession(previous, worker("lead", 2, lead), reserving())).toMatchObject({
      id: "ses-lead-2",
    });
  });
});

describe("a launch", () => {
  const launched = {
    tmuxSession: "overseer-ada",
    paneId: "%3",
    pid: 4242,
    mark: "4242:99887",
    claudeSessionId: "c-1",
  };

  test("is kept with the pid's start, and tells of itself", async () => {
    using home = freshLedger();
    await home.ledger.registerSession(worker("ada", 1));
    await home.ledger.recordLaunch(
      "ses-ada-1",
      launched,
      told("session.launched", 1_100, { data: { pid: 4242 } }),
    );
    expect(await home.another().currentSession("ada")).toMatchObject({ ...launched, state: "booting" });
    expect(await home.ledger.listEvents({ type: "session.launched", limit: 9 })).toMatchObject([
      { at: 1_100, agent: "ada", data: { pid: 4242 } },
    ]);
  });

  test("whose process is gone already has no mark, and one that was only found keeps the Claude session", async () => {
    using home = freshLedger();
    await home.ledger.registerSession(worker("ada", 1, { claudeSessionId: "c-0" }));
    const found = { ...launched, mark: null, claudeSessionId: null };
    await home.ledger.recordLaunch("ses-ada-1", found, told("session.launched", 1_100));
    expect(await home.ledger.currentSession("ada")).toMatchObject({
      pid: 4242,
      mark: null,
      claudeSessionId: "c-0",
    });
  });
});

describe("the end of a session", () => {
  const end = (state: "stopped" | "failed" | "zombie", at = 2_000) => ({
    state,
    cause: `it is ${state}`,
    at,
  });
  const event = told("session.stopped", 2_000);

  test.each(["stopped", "failed", "zombie"] as const)("a live one becomes %s", async (state) => {
    using home = freshLedger();
    const { version } = await home.ledger.registerSession(worker("ada", 1));
    expect(await home.ledger.endSession("ses-ada-1", end(state), event)).toBe(true);
    expect(await home.ledger.currentSession("ada")).toMatchObject({
      state,
      cause: `it is ${state}`,
      reason: null,
      endedAt: 2_000,
      toolsInFlight: 0,
      version: version + 1,
    });
    expect(await typesOf(home.ledger, "session.stopped")).toHaveLength(1);
  });

  const ends = ["stopped", "failed", "zombie"] as const;
  const final = (["completed", "failed"] as const).flatMap((was) => ends.map((to) => [was, to] as const));
  test.each(final)("one that is %s does not become %s, and nothing is told", async (was, to) => {
    using home = freshLedger();
    await ended(home.ledger, worker("ada", 1), was);
    const before = await everything(home.ledger);
    expect(await home.ledger.endSession("ses-ada-1", end(to), event)).toBe(false);
    expect(await everything(home.ledger)).toEqual(before);
  });

  test("who stopped it counts more than that Claude Code ended", async () => {
    using home = freshLedger();
    await home.ledger.registerSession(worker("ada", 1));
    await home.ledger.recordActivity(
      { sessionId: "ses-ada-1" },
      { at: 1_900, signal: { kind: "ended", cause: "ended: other" }, event: "session.ended", data: {} },
    );
    expect(await home.ledger.endSession("ses-ada-1", end("stopped"), event)).toBe(true);
    expect(await home.ledger.currentSession("ada")).toMatchObject({
      state: "stopped",
      cause: "it is stopped",
    });
  });

  test("of a session that nobody knows is none", async () => {
    using home = freshLedger();
    expect(await home.ledger.endSession("ses-eve-1", end("stopped"), event)).toBe(false);
    expect(await home.ledger.listEvents({ limit: 9 })).toEqual([]);
  });
});

describe("the next incarnation", () => {
  const scoped = { taskId: "t-1", fileScope: ["src"], worktree: "/w/ada" };

  test.each(["working", "stopped", "failed", "zombie"] as const)(
    "of a %s worker has its name, its task and its files, and is the one that counts",
    async (state) => {
      using home = freshLedger();
      await home.ledger.createTask(task("t-1"));
      await ended(home.ledger, worker("ada", 1, scoped), state);
      const previous = await home.ledger.currentSession("ada");
      if (!previous) throw new Error("ada is not there");
      const next = await home.ledger.succeedSession(previous, worker("ada", 2, scoped), reserving());
      expect(next).toMatchObject({ id: "ses-ada-2", state: "booting", ...scoped });
      expect(await home.ledger.findSession({ sessionId: "ses-ada-1" })).toMatchObject({
        isCurrent: false,
        session: { state: state === "working" ? "zombie" : state },
      });
      expect(await home.ledger.findAction("ses-ada-2")).toMatchObject({ kind: "spawn", state: "running" });
      expect((await home.ledger.pastSessions({ name: "ada" })).map(({ id }) => id)).toEqual([
        "ses-ada-2",
        "ses-ada-1",
      ]);
    },
  );

  test("is refused when the worker has changed meanwhile", async () => {
    using home = freshLedger();
    const seen = await home.ledger.registerSession(worker("ada", 1));
    await home.ledger.recordActivity(
      { sessionId: "ses-ada-1" },
      { at: 1_500, signal: { kind: "started", isIdle: false }, event: "session.started", data: {} },
    );
    const attempt = () => home.ledger.succeedSession(seen, worker("ada", 2), reserving());
    await expect(attempt()).rejects.toMatchObject({ code: "changed_meanwhile" });
    expect(await home.ledger.currentSession("ada")).toMatchObject({ id: "ses-ada-1", state: "working" });
  });

  test.each(["working", "stopped"] as const)(
    "of a %s worker is made once, by the first of two",
    async (state) => {
      using home = freshLedger();
      await ended(home.ledger, worker("ada", 1), state);
      const previous = await home.ledger.currentSession("ada");
      if (!previous) throw new Error("ada is not there");
      const attempt = (n: number) => home.another().succeedSession(previous, worker("ada", n), reserving());
      const outcomes = await Promise.allSettled([attempt(2), attempt(3)]);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      expect(outcomes).toContainEqual({
        status: "rejected",
        reason: expect.objectContaining({ code: "changed_meanwhile" }),
      });
      expect(await home.ledger.liveWorkers(-1)).toHaveLength(1);
    },
  );

  test("that is refused for another reason leaves the worker as it was", async () => {
    using home = freshLedger();
    await ended(home.ledger, worker("bob", 1), "idle");
    await ended(home.ledger, worker("ada", 1), "idle");
    const previous = await home.ledger.currentSession("ada");
    if (!previous) throw new Error("ada is not there");
    const before = await everything(home.ledger);
    const full = reserving({ maxConcurrent: 1 });
    await expect(home.ledger.succeedSession(previous, worker("ada", 2), full)).rejects.toMatchObject({
      code: "too_many_workers",
    });
    expect(await everything(home.ledger)).toEqual(before);
  });

  test("counts as one worker, not as two", async () => {
    using home = freshLedger();
    await ended(home.ledger, worker("ada", 1), "idle");
    const previous = await home.ledger.currentSession("ada");
    if (!previous) throw new Error("ada is not there");
    const full = reserving({ maxConcurrent: 1 });
    expect(await home.ledger.succeedSession(previous, worker("ada", 2), full)).toMatchObject({
      id: "ses-ada-2",
    });
  });
});

describe("a completion", () => {
  async function atWork(ledger: Ledger) {
    await ledger.createTask(task("t-1", { priority: "high" }));
    await ledger.createTask(task("t-2", { dependsOn: ["t-1"] }));
    await ledger.registerSession(worker("ada", 1, { taskId: "t-1" }), reserving());
    await ledger.claimTask("t-1", 1_100, told("task.claimed", 1_100));
  }
  const event = told("session.completed", 5_000, { taskId: "t-1" });

  test("with a branch puts it into the queue, and the task waits for that", async () => {
    using home = freshLedger();
    await atWork(home.ledger);
    const done = { entry: entryOf("ada"), reason: "a form", at: 5_000 };
    expect(await home.ledger.completeSession("ses-ada-1", done, event)).toEqual({ queued: [] });
    expect(await home.ledger.currentSession("ada")).toMatchObject({ state: "completed", endedAt: 5_000 });
    expect(await home.ledger.findTask("t-1")).toMatchObject({ status: "in_progress" });
    const entry = {
      ...entryOf("ada"),
      files: ["src/a.ts"],
      taskId: "t-1",
      sessionId: "ses-ada-1",
      status: "pending",
      tier: null,
      error: null,
      enqueuedAt: 5_000,
    };
    expect(await home.another().mergeEntries({ taskId: "t-1" })).toEqual([entry]);
    expect(await home.ledger.mergeEntries({ sessionId: "ses-bob-1" })).toEqual([]);
    expect(await home.ledger.overview()).toMatchObject({ merge: { pending: 1 } });
    expect(await typesOf(home.ledger, "merge")).toEqual(["merge.enqueued"]);
  });

  test("without a branch closes the task, and what waited for it is ready", async () => {
    using home = freshLedger();
    await atWork(home.ledger);
    const done = { entry: null, reason: "there was nothing to do", at: 5_000 };
    expect(await home.ledger.completeSession("ses-ada-1", done, event)).toEqual({ queued: ["t-2"] });
    expect(await home.ledger.findTask("t-1")).toMatchObject({ status: "done", reason: done.reason });
    expect(await home.ledger.findTask("t-2")).toMatchObject({ status: "queued" });
    expect(await home.ledger.mergeEntries({})).toEqual([]);
  });

  test("that must not be merged as it is is held, until the same worker hands it in again", async () => {
    using home = freshLedger();
    await atWork(home.ledger);
    const held = { entry: entryOf("ada"), heldFor: "it changes src/b.ts", reason: "a form", at: 5_000 };
    await home.ledger.completeSession("ses-ada-1", held, event);
    expect(await home.ledger.mergeEntries({ taskId: "t-1" })).toMatchObject([
      { id: "mrg-ada-1", status: "held", error: "it changes src/b.ts" },
    ]);
    expect(await home.ledger.overview()).toMatchObject({ merge: { held: 1 } });
    expect(await home.ledger.findTask("t-1")).toMatchObject({ status: "in_progress" });
    const [told] = await home.ledger.listEvents({ type: "merge", limit: 5 });
    expect(told).toMatchObject({ type: "merge.held", agent: "ada", data: { why: "it changes src/b.ts" } });

    const other = worker("bob", 1, { taskId: "t-1" });
    expect(home.ledger.registerSession(other, reserving())).rejects.toMatchObject({ code: "task_taken" });
    const before = await home.ledger.currentSession("ada");
    if (before === null) throw new Error("ada is gone");
    const { branch } = entryOf("ada");
    await home.ledger.succeedSession(before, worker("ada", 2, { taskId: "t-1", branch }), reserving());
    const anew = { entry: { ...entryOf("ada"), id: "mrg-ada-2" }, reason: "a form", at: 7_000 };
    await home.ledger.completeSession("ses-ada-2", anew, { ...event, at: 7_000 });
    const entries = await home.ledger.mergeEntries({ taskId: "t-1" });
    expect(entries.map(({ id, status }) => [id, status])).toEqual([
      ["mrg-ada-2", "pending"],
      ["mrg-ada-1", "aborted"],
    ]);
  });

  test("leaves a task alone that somebody has closed meanwhile", async () => {
    using home = freshLedger();
    await atWork(home.ledger);
    await home.ledger.closeTask("t-1", { reason: "by hand", actor: "human", at: 4_000 });
    const done = { entry: null, reason: "mine", at: 5_000 };
    expect(await home.ledger.completeSession("ses-ada-1", done, event)).toEqual({ queued: [] });
    expect(await home.ledger.findTask("t-1")).toMatchObject({ reason: "by hand", endedAt: 4_000 });
  });

  test.each([
    ["with", entryOf("ada")],
    ["without", null],
  ] as const)("%s a branch, done twice, is done once", async (_, entry) => {
    using home = freshLedger();
    await atWork(home.ledger);
    await home.ledger.completeSession("ses-ada-1", { entry, reason: "a form", at: 5_000 }, event);
    const once = await everything(home.ledger);
    const again = { entry, reason: "a form", at: 6_000 };
    expect(await home.another().completeSession("ses-ada-1", again, { ...event, at: 6_000 })).toEqual({
      queued: [],
    });
    expect(await everything(home.ledger)).toEqual(once);
  });

  test.each(["stopped", "zombie"] as const)(
    "counts also when the worker was found %s before",
    async (state) => {
      using home = freshLedger();
      await atWork(home.ledger);
      await home.ledger.endSession(
        "ses-ada-1",
        { state, cause: "gone", at: 4_000 },
        told("session.died", 4_000),
      );
      await home.ledger.completeSession("ses-ada-1", { entry: null, reason: "done", at: 5_000 }, event);
      expect(await home.ledger.currentSession("ada")).toMatchObject({ state: "completed" });
      expect(await home.ledger.findTask("t-1")).toMatchObject({ status: "done" });
    },
  );

  test("of a spawn that failed, or of nobody, changes nothing", async () => {
    using home = freshLedger();
    await atWork(home.ledger);
    await home.ledger.endSession(
      "ses-ada-1",
      { state: "failed", cause: "no", at: 4_000 },
      told("session.spawn_failed", 4_000),
    );
    const before = await everything(home.ledger);
    const done = { entry: entryOf("ada"), reason: "done", at: 5_000 };
    for (const id of ["ses-ada-1", "ses-eve-1"])
      expect(await home.ledger.completeSession(id, done, event)).toEqual({ queued: [] });
    expect(await everything(home.ledger)).toEqual(before);
  });

  test("is awaited from its announcement until it is carried out", async () => {
    using home = freshLedger();
    await atWork(home.ledger);
    const id = completionId("ses-ada-1");
    expect(await home.ledger.isCompleting("ses-ada-1")).toBe(false);
    const planned = { id, kind: "complete", subject: "ada", payload: { reason: "done" } };
    await home.ledger.planAction(planned, told("session.completing", 4_000));
    expect(await home.another().isCompleting("ses-ada-1")).toBe(true);
    await home.ledger.takeAction(id, null, "1:1", 4_100);
    expect(await home.ledger.isCompleting("ses-ada-1")).toBe(true);
    await home.ledger.endAction(id, "done", "mrg-1", 4_200);
    expect(await home.ledger.isCompleting("ses-ada-1")).toBe(false);
  });
});

describe("a worktree that is gone", () => {
  async function finished(ledger: Ledger) {
    await ledger.registerSession(worker("ada", 1, { worktree: "/w/ada", fileScope: ["src"] }), reserving());
    const done = { entry: entryOf("ada"), reason: "done", at: 5_000 };
    await ledger.completeSession("ses-ada-1", done, told("session.completed", 5_000));
  }
  const statuses = async (ledger: Ledger) => (await ledger.mergeEntries({})).map(({ status }) => status);
  const event = told("worktree.removed", 6_000);

  test("is nobody's, and work that has landed is merged", async () => {
    using home = freshLedger();
    await finished(home.ledger);
    await home.ledger.releaseWorktree("ses-ada-1", "merged", event);
    expect(await home.ledger.currentSession("ada")).toMatchObject({ worktree: null, state: "completed" });
    expect(await statuses(home.ledger)).toEqual(["merged"]);
    expect(await typesOf(home.ledger, "worktree")).toEqual(["worktree.removed"]);
  });

  test("that a spawn is undone leaves the queue alone, and the heir keeps the place", async () => {
    using home = freshLedger();
    await finished(home.ledger);
    await home.ledger.registerSession(worker("ada", 2, { worktree: "/w/ada" }));
    await home.ledger.releaseWorktree("ses-ada-1", "undone", event);
    const [newest, oldest] = await home.ledger.pastSessions({ name: "ada" });
    expect([newest?.worktree, oldest?.worktree]).toEqual(["/w/ada", null]);
    expect(await statuses(home.ledger)).toEqual(["pending"]);
  });

  test("takes work that was given up out of the queue, so that its files are free", async () => {
    using home = freshLedger();
    await finished(home.ledger);
    await home.ledger.registerSession(worker("bob", 1), reserving());
    await home.ledger.completeSession(
      "ses-bob-1",
      { entry: entryOf("bob"), reason: "done", at: 5_500 },
      told("session.completed", 5_500),
    );
    await home.ledger.releaseWorktree("ses-ada-1", "aborted", event);
    const entries = await home.ledger.mergeEntries({});
    expect(entries.map(({ id, status }) => [id, status])).toEqual([
      ["mrg-bob-1", "pending"],
      ["mrg-ada-1", "aborted"],
    ]);
    const next = worker("eve", 1, { fileScope: ["src"] });
    expect(await home.ledger.registerSession(next, reserving())).toMatchObject({ name: "eve" });
  });
});

test("the past of a name is not the past of a task", async () => {
  using home = freshLedger();
  await ended(home.ledger, worker("ada", 1, { taskId: "t-1" }), "stopped");
  await ended(home.ledger, worker("bob", 2, { taskId: "t-1" }), "failed");
  await ended(home.ledger, worker("ada", 3, { taskId: "t-2" }), "working");
  const ids = async (of: Parameters<Ledger["pastSessions"]>[0]) =>
    (await home.ledger.pastSessions(of)).map(({ id }) => id);
  expect(await ids({ name: "ada" })).toEqual(["ses-ada-3", "ses-ada-1"]);
  expect(await ids({ taskId: "t-1" })).toEqual(["ses-bob-2", "ses-ada-1"]);
  expect(await ids({ name: "eve" })).toEqual([]);
});
