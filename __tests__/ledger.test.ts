import { expect, test } from "bun:test";
import { ORCHESTRATOR } from "../src/domain/names.ts";
import type { SessionSignal, SessionState } from "../src/domain/session.ts";
import type { Activity, Ledger, NewSession, NewTask, Restoration } from "../src/store/contract.ts";
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
    tokenHash: keyOf(name, incarnation).tokenHash,
    startedAt: incarnation * 1_000,
    logFolder: `${name}/${incarnation}`,
    ...more,
  };
}

const keyOf = (name: string, incarnation: number) => ({ tokenHash: `hash-${name}-${incarnation}` });

function orchestrator(claudeSessionId: string, startedAt: number) {
  return {
    id: `ses-${claudeSessionId}`,
    name: ORCHESTRATOR,
    capability: ORCHESTRATOR,
    tokenHash: null,
    startedAt,
    logFolder: `orchestrator/${startedAt}`,
    claudeSessionId,
  };
}

function activity(at: number, signal: SessionSignal, more: Partial<Activity> = {}): Activity {
  return { at, signal, event: "session.notified", data: {}, ...more };
}

const ENDED: SessionSignal = { kind: "ended", cause: "ended: exit" };
const ACTIVE: SessionSignal = { kind: "active" };
const STARTED: SessionSignal = { kind: "started", isIdle: false };

function restorable(name: string, incarnation: number, state: SessionState) {
  return { ...worker(name, incarnation), state, lastActivityAt: incarnation * 1_000 + 500 };
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

const nothing: Restoration = { sessions: [], tasks: [], events: [] };

test("a registered session is booting and has everything it was given", async () => {
  using home = freshLedger();
  const given = {
    taskId: "t-1",
    parent: "lead",
    depth: 1,
    worktree: "/w/ada",
    branch: "overseer/ada/t-1",
    baseCommit: "c0ffee",
    model: "opus",
    pid: 42,
    claudeSessionId: "c-1",
    fileScope: ["src/a.ts", "docs/"],
  };
  const session = await home.ledger.registerSession(worker("ada", 1, given));
  expect(session).toEqual({
    ...given,
    id: "ses-ada-1",
    name: "ada",
    capability: "builder",
    tmuxSession: null,
    paneId: null,
    mark: null,
    transcriptPath: null,
    state: "booting",
    reason: null,
    reasonUntil: null,
    cause: "registered",
    stateAt: 1_000,
    startedAt: 1_000,
    endedAt: null,
    lastActivityAt: 1_000,
    toolName: null,
    toolStartedAt: null,
    toolsInFlight: 0,
    logFolder: "ada/1",
    version: 1,
  });
  expect(await home.another().currentSession("ada")).toEqual(session);
  expect(await home.ledger.listEvents({ type: "session.registered", limit: 9 })).toMatchObject([
    { agent: "ada", sessionId: "ses-ada-1", taskId: "t-1", at: 1_000 },
  ]);
});

test("the name of a live session is taken, and the attempt leaves nothing behind", async () => {
  using home = freshLedger();
  await home.ledger.registerSession(worker("ada", 1));
  await expect(home.another().registerSession(worker("ada", 2))).rejects.toMatchObject({
    code: "name_taken",
  });
  expect(await home.ledger.findSession(keyOf("ada", 2))).toBeNull();
  expect(await home.ledger.listEvents({ limit: 9 })).toHaveLength(1);
});

test.each(["booting", "working", "idle", "stalled"] as const)(
  "a %s session keeps its name",
  async (state) => {
    using home = freshLedger();
    await home.ledger.restore({ ...nothing, sessions: [restorable("ada", 1, state)] });
    await expect(home.ledger.registerSession(worker("ada", 2))).rejects.toMatchObject({ code: "name_taken" });
  },
);

test.each(["completed", "stopped", "failed", "zombie"] as const)(
  "a %s session leaves its name",
  async (state) => {
    using home = freshLedger();
    await home.ledger.restore({ ...nothing, sessions: [restorable("ada", 1, state)] });
    expect(await home.ledger.registerSession(worker("ada", 2))).toMatchObject({
      id: "ses-ada-2",
      state: "booting",
    });
  },
);

test("of many that register one name at once, one has it", async () => {
  using home = freshLedger();
  const ledgers = Array.from({ length: 5 }, () => home.another());
  const attempts = ledgers.map((ledger, n) => ledger.registerSession(worker("ada", n)));
  const outcomes = await Promise.allSettled(attempts);
  expect(outcomes.filter((outcome) => outcome.status === "fulfilled")).toHaveLength(1);
});

test("after its end a name gets a new incarnation, and the old one stays findable", async () => {
  using home = freshLedger();
  await home.ledger.registerSession(worker("ada", 1));
  await home.ledger.recordActivity(keyOf("ada", 1), activity(1_500, ENDED));
  await home.ledger.registerSession(worker("ada", 2));
  expect(await home.ledger.currentSession("ada")).toMatchObject({ id: "ses-ada-2", state: "booting" });
  expect(await home.ledger.findSession({ sessionId: "ses-ada-1" })).toMatchObject({
    isCurrent: false,
    session: { state: "stopped", cause: "ended: exit", endedAt: 1_500 },
  });
  expect(await home.ledger.findSession(keyOf("ada", 2))).toMatchObject({ isCurrent: true });
});

test.each([ACTIVE, STARTED, ENDED, { kind: "waiting", reason: "question" }] as const)(
  "a late $kind of an older incarnation moves neither itself nor the newer one",
  async (signal) => {
    using home = freshLedger();
    await home.ledger.registerSession(worker("ada", 1));
    await home.ledger.recordActivity(keyOf("ada", 1), activity(1_500, ENDED));
    const newer = await home.ledger.registerSession(worker("ada", 2));
    const late = await home.ledger.recordActivity(
      keyOf("ada", 1),
      activity(2_500, signal, { claudeSessionId: "c-old", tool: { phase: "started", name: "Bash" } }),
    );
    expect(late).toMatchObject({
      isCurrent: false,
      session: { id: "ses-ada-1", state: "stopped", version: 2 },
    });
    expect(await home.ledger.currentSession("ada")).toEqual(newer);
    const [event] = await home.ledger.listEvents({ type: "session.notified", since: 2_500, limit: 1 });
    expect(event).toMatchObject({ agent: "ada", sessionId: "ses-ada-1" });
  },
);

test("the orchestrator's row is made once for each Claude session", async () => {
  using home = freshLedger();
  const first = await home.ledger.ensureOrchestrator(orchestrator("c-1", 1));
  expect(await home.another().ensureOrchestrator(orchestrator("c-1", 99))).toEqual(first);
  expect(await home.ledger.listEvents({ type: "session.registered", limit: 9 })).toHaveLength(1);
});

test("several orchestrators live at once, and each is current", async () => {
  using home = freshLedger();
  for (const [n, id] of ["c-1", "c-2", "c-3"].entries())
    await home.ledger.ensureOrchestrator(orchestrator(id, n));
  await home.ledger.recordActivity({ orchestrator: "c-1" }, activity(10, STARTED));
  await home.ledger.recordActivity(
    { orchestrator: "c-2" },
    activity(11, { kind: "turn_ended", cause: "turn ended" }),
  );
  const found = await Promise.all(
    ["c-1", "c-2", "c-3"].map((id) => home.ledger.findSession({ orchestrator: id })),
  );
  expect(found.map((one) => [one?.isCurrent, one?.session.state])).toEqual([
    [true, "working"],
    [true, "idle"],
    [true, "booting"],
  ]);
  const shown = async () => (await home.ledger.currentSessions()).map((session) => session.id);
  expect(await shown()).toEqual(["ses-c-1", "ses-c-2", "ses-c-3"]);
  await home.ledger.recordActivity({ orchestrator: "c-2" }, activity(12, ENDED));
  expect(await shown()).toEqual(["ses-c-1", "ses-c-3"]);
});

test("a worker's Claude session id makes it no orchestrator", async () => {
  using home = freshLedger();
  await home.ledger.registerSession(worker("ada", 1, { claudeSessionId: "c-1" }));
  expect(await home.ledger.findSession({ orchestrator: "c-1" })).toBeNull();
});

test("an unknown key is nobody, and what it reports is not kept", async () => {
  using home = freshLedger();
  expect(await home.ledger.findSession(keyOf("eve", 1))).toBeNull();
  expect(await home.ledger.findSession({ sessionId: "ses-eve-1" })).toBeNull();
  expect(await home.ledger.currentSession("eve")).toBeNull();
  expect(await home.ledger.recordActivity(keyOf("eve", 1), activity(1, ACTIVE))).toBeNull();
  expect(await home.ledger.listEvents({ limit: 9 })).toEqual([]);
});

test("the version counts changes of state, not activity", async () => {
  using home = freshLedger();
  await home.ledger.registerSession(worker("ada", 1));
  const versions: unknown[] = [];
  const signals: SessionSignal[] = [STARTED, ACTIVE, { kind: "noticed" }, { kind: "compacted" }, ACTIVE];
  for (const [n, signal] of signals.entries()) {
    const recorded = await home.ledger.recordActivity(keyOf("ada", 1), activity(2_000 + n, signal));
    versions.push([recorded?.session.version, recorded?.session.stateAt, recorded?.session.lastActivityAt]);
  }
  expect(versions).toEqual([0, 1, 2, 3, 4].map((n) => [2, 2_000, 2_000 + n]));
  await home.ledger.recordActivity(
    keyOf("ada", 1),
    activity(3_000, { kind: "waiting", reason: "permission" }),
  );
  const asked = await home.ledger.recordActivity(
    keyOf("ada", 1),
    activity(3_001, { kind: "waiting", reason: "question" }),
  );
  expect(asked?.session).toMatchObject({ version: 4, state: "waiting", reason: "question", stateAt: 3_001 });
  expect(await home.another().currentSession("ada")).toEqual(asked?.session ?? null);
});

test("the last activity never goes back, and ids once told are kept", async () => {
  using home = freshLedger();
  await home.ledger.registerSession(worker("ada", 1));
  const told = { claudeSessionId: "c-1", transcriptPath: "/t.jsonl" };
  await home.ledger.recordActivity(keyOf("ada", 1), activity(5_000, ACTIVE, told));
  const late = await home.ledger.recordActivity(keyOf("ada", 1), activity(4_000, ACTIVE));
  expect(late?.session).toMatchObject({ ...told, lastActivityAt: 5_000 });
});

test("tools in flight are counted, never below none, and a new turn begins with none", async () => {
  using home = freshLedger();
  await home.ledger.registerSession(worker("ada", 1));
  const record = async (at: number, signal: SessionSignal, tool?: Activity["tool"]) => {
    const more = tool === undefined ? {} : { tool };
    const recorded = await home.ledger.recordActivity(keyOf("ada", 1), activity(at, signal, more));
    const { toolsInFlight, toolName, toolStartedAt } = recorded?.session ?? {};
    return [toolsInFlight, toolName, toolStartedAt];
  };
  const started = (name: string) => ({ phase: "started", name }) as const;
  expect(await record(1, ACTIVE, { phase: "ended" })).toEqual([0, null, null]);
  expect(await record(2, ACTIVE, started("Bash"))).toEqual([1, "Bash", 2]);
  expect(await record(3, ACTIVE, started("Read"))).toEqual([2, "Read", 3]);
  expect(await record(4, { kind: "noticed" })).toEqual([2, "Read", 3]);
  expect(await record(5, { kind: "waiting", reason: "permission" })).toEqual([2, "Read", 3]);
  expect(await record(6, ACTIVE, { phase: "ended" })).toEqual([1, "Read", 3]);
  expect(await record(7, ACTIVE, { phase: "ended" })).toEqual([0, null, null]);
  expect(await record(8, ACTIVE, { phase: "ended" })).toEqual([0, null, null]);
  await record(9, ACTIVE, started("Bash"));
  expect(await record(10, { kind: "turn_ended", cause: "turn ended" })).toEqual([0, null, null]);
});

test("a stopped session works again when it starts, and by nothing else", async () => {
  using home = freshLedger();
  await home.ledger.registerSession(worker("ada", 1));
  await home.ledger.recordActivity(keyOf("ada", 1), activity(2_000, ENDED));
  for (const signal of [ACTIVE, { kind: "turn_ended", cause: "late" }, { kind: "noticed" }] as const) {
    const recorded = await home.ledger.recordActivity(keyOf("ada", 1), activity(2_100, signal));
    expect(recorded?.session).toMatchObject({ state: "stopped", endedAt: 2_000 });
  }
  const resumed = await home.ledger.recordActivity(keyOf("ada", 1), activity(3_000, STARTED));
  expect(resumed?.session).toMatchObject({ state: "working", endedAt: null, stateAt: 3_000 });
});

test("the newest incarnation of every name is shown, the live ones first, the oldest first", async () => {
  using home = freshLedger();
  for (const name of ["eve", "ada", "bob"]) await home.ledger.registerSession(worker(name, 1));
  await home.ledger.recordActivity(keyOf("eve", 1), activity(1_100, ENDED));
  await home.ledger.recordActivity(keyOf("ada", 1), activity(1_200, ENDED));
  await home.ledger.registerSession(worker("ada", 2));
  const shown = await home.ledger.currentSessions();
  expect(shown.map((session) => session.id)).toEqual(["ses-bob-1", "ses-ada-2", "ses-eve-1"]);
});

test("the live workers are shown, the oldest first, no more than asked for, and no orchestrator", async () => {
  using home = freshLedger();
  await home.ledger.ensureOrchestrator(orchestrator("c-1", 1));
  const sessions = (["idle", "failed", "stalled", "zombie", "working", "stopped", "completed"] as const).map(
    (state) => restorable(state, 1, state),
  );
  await home.ledger.restore({ ...nothing, sessions });
  const names = async (limit: number) => (await home.ledger.liveWorkers(limit)).map(({ name }) => name);
  expect(await names(9)).toEqual(["idle", "stalled", "working"]);
  expect(await names(2)).toEqual(["idle", "stalled"]);
});

test("an event that cannot be kept takes the whole activity with it", async () => {
  using home = freshLedger();
  const before = await home.ledger.registerSession(worker("ada", 1));
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  await expect(
    home.ledger.recordActivity(keyOf("ada", 1), activity(2_000, ACTIVE, { data: circular })),
  ).rejects.toThrow();
  expect(await home.ledger.currentSession("ada")).toEqual(before);
});

const fromLogs: Restoration = {
  sessions: [restorable("ada", 1, "stopped"), restorable("ada", 2, "idle")],
  tasks: [
    { ...task("t-2", { dependsOn: ["t-1", "t-lost"], at: 7 }), status: "todo", reason: null },
    { ...task("t-1", { tags: ["ui"], files: ["a.ts"] }), status: "queued", reason: null },
    { ...task("t-0", { at: 9 }), status: "done", reason: "it works" },
  ],
  events: [
    { at: 5, type: "session.prompted", agent: "ada", sessionId: "ses-ada-1", data: { by: "mail" } },
    { at: 6, type: "store.corrupt" },
  ],
};

test("what the logs tell comes back whole", async () => {
  using home = freshLedger();
  expect(await home.ledger.restore(fromLogs)).toEqual({ sessions: 2, tasks: 3, events: 2 });
  expect(await home.ledger.findSession(keyOf("ada", 1))).toMatchObject({
    isCurrent: false,
    session: { state: "stopped", startedAt: 1_000, lastActivityAt: 1_500, endedAt: 1_500 },
  });
  expect(await home.ledger.currentSession("ada")).toMatchObject({
    id: "ses-ada-2",
    state: "idle",
    startedAt: 2_000,
    lastActivityAt: 2_500,
    endedAt: null,
  });
  expect(await home.ledger.findTask("t-2")).toMatchObject({
    status: "todo",
    dependsOn: ["t-1"],
    waitsFor: ["t-1"],
  });
  expect(await home.ledger.findTask("t-1")).toMatchObject({
    status: "queued",
    tags: ["ui"],
    files: ["a.ts"],
  });
  expect(await home.ledger.findTask("t-0")).toMatchObject({ status: "done", reason: "it works", endedAt: 9 });
  expect(await home.ledger.listEvents({ limit: 9 })).toMatchObject([
    { at: 5, type: "session.prompted", agent: "ada", sessionId: "ses-ada-1", data: { by: "mail" } },
    { at: 6, type: "store.corrupt", agent: null, sessionId: null, taskId: null, data: {} },
  ]);
  expect((await home.ledger.closeTask("t-1", { reason: "done", actor: "human", at: 20 })).queued).toEqual([
    "t-2",
  ]);
  expect(await home.ledger.check()).toEqual([]);
});

test("restoring twice is restoring once, and what lives already stays as it is", async () => {
  using home = freshLedger();
  await home.ledger.restore(fromLogs);
  await home.ledger.recordActivity(keyOf("ada", 2), activity(3_000, ACTIVE));
  await home.ledger.closeTask("t-1", { reason: "merged", actor: "human", at: 20 });
  const everything = async () => [
    await home.ledger.currentSessions(),
    await home.ledger.listTasks({}),
    await home.ledger.listEvents({ limit: 99 }),
  ];
  const before = await everything();
  expect(await home.ledger.restore(fromLogs)).toEqual({ sessions: 0, tasks: 0, events: 0 });
  expect(await everything()).toEqual(before);
});
