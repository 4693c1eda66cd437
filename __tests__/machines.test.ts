import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { HOOK_EVENTS, interpret, LOG_NAMES, toHookEvent } from "../src/domain/hook-event.ts";
import { type HookPayload, readPayload } from "../src/domain/hook-payload.ts";
import { assertMove, canMove, type Moves } from "../src/domain/machine.ts";
import { MESSAGE_TYPES } from "../src/domain/mail.ts";
import { assertAgentName, assertTaskId, isAgentName, isTaskId, quote } from "../src/domain/names.ts";
import {
  type Condition,
  isLive,
  SESSION_MOVES,
  SESSION_STATES,
  type SessionSignal,
  type SessionState,
  stepSession,
  WAITING_REASONS,
} from "../src/domain/session.ts";
import { isOpen, PRIORITIES, TASK_KINDS, TASK_MOVES, TASK_STATUSES } from "../src/domain/task.ts";
import { openLedger } from "../src/store/sqlite/ledger.ts";
import { openMail } from "../src/store/sqlite/mail.ts";
import { tempFolder } from "./support/temp.ts";

const LIVE = ["booting", "working", "idle", "waiting", "stalled"] as const;
const SIGNALS: readonly SessionSignal[] = [
  { kind: "started", isIdle: false },
  { kind: "started", isIdle: true },
  { kind: "compacted" },
  { kind: "active" },
  ...WAITING_REASONS.map((reason) => ({ kind: "waiting", reason }) as const),
  { kind: "turn_ended", cause: "turn ended" },
  { kind: "ended", cause: "ended: exit" },
  { kind: "noticed" },
];
const CONDITIONS: readonly Condition[] = SESSION_STATES.flatMap((state): Condition[] =>
  state === "waiting"
    ? WAITING_REASONS.map((reason) => ({ state, reason, cause: "before" }))
    : [{ state, reason: null, cause: "before" }],
);

/** Where each kind of signal leads a session that hears it; null where it changes nothing. */
const LEADS_TO: Record<SessionSignal["kind"], SessionState | null> = {
  started: "working",
  active: "working",
  waiting: "waiting",
  turn_ended: "idle",
  ended: "stopped",
  compacted: null,
  noticed: null,
};

function expected(now: Condition, signal: SessionSignal): Pick<Condition, "state" | "reason"> {
  const isFinal = now.state === "completed" || now.state === "failed";
  const isDeaf = !isLive(now.state) && signal.kind !== "started";
  const isHeld = now.reason === "paused" && signal.kind !== "ended";
  const state = signal.kind === "started" && signal.isIdle ? "idle" : LEADS_TO[signal.kind];
  if (isFinal || isDeaf || isHeld || state === null) return { state: now.state, reason: now.reason };
  return { state, reason: signal.kind === "waiting" ? signal.reason : null };
}

describe("a session", () => {
  const table = CONDITIONS.flatMap((now) =>
    SIGNALS.map((signal) => ({
      now,
      signal,
      title: [now.state, now.reason ?? "for nothing", signal.kind].join(", "),
    })),
  );

  test.each(table)("moves as the table says: $title", ({ now, signal }) => {
    const next = stepSession(now, signal);
    expect(next).toMatchObject(expected(now, signal));
    if (next.state !== now.state) expect(canMove(SESSION_MOVES, now.state, next.state)).toBe(true);
    const isSame = next.state === now.state && next.reason === now.reason;
    expect(next === now).toBe(isSame);
    if (!isSame) expect(next.cause).not.toBe("before");
  });

  test("that is completed or failed stays so for ever; a pause holds until the end", () => {
    const signals = fc.array(fc.constantFrom(...SIGNALS), { maxLength: 30 });
    fc.assert(
      fc.property(fc.constantFrom(...CONDITIONS), signals, (start, heard) => {
        let now = start;
        for (const signal of heard) {
          const next = stepSession(now, signal);
          if (now.state === "completed" || now.state === "failed") expect(next).toBe(now);
          if (now.reason === "paused") expect([now.state, "stopped"]).toContain(next.state);
          if (!isLive(now.state) && isLive(next.state)) expect(signal.kind).toBe("started");
          now = next;
        }
      }),
    );
  });

  test.each([
    { isIdle: false, becomes: "working" },
    { isIdle: true, becomes: "idle" },
  ] as const)("that was stopped or taken for dead starts again, as $becomes", ({ isIdle, becomes }) => {
    for (const state of ["stopped", "zombie"] as const) {
      const before = { state, reason: null, cause: "" };
      expect(stepSession(before, { kind: "started", isIdle }).state).toBe(becomes);
    }
  });

  test("that was stopped or taken for dead may have completed its task, or be a spawn that is undone; other ends are final", () => {
    const ended = SESSION_STATES.filter((state) => !isLive(state));
    const targets = Object.fromEntries(ended.map((state) => [state, SESSION_MOVES[state]]));
    expect(targets).toEqual({
      completed: [],
      stopped: ["working", "idle", "completed", "failed"],
      failed: [],
      zombie: ["working", "idle", "completed", "failed"],
    });
  });

  test("is live until one of its four ends", () => {
    expect(SESSION_STATES.filter(isLive)).toEqual([...LIVE]);
  });
});

describe("a machine", () => {
  const machines: [string, Moves<string>, readonly string[]][] = [
    ["session", SESSION_MOVES, SESSION_STATES],
    ["task", TASK_MOVES, TASK_STATUSES],
  ];

  test.each(machines)(
    "of a %s moves between its own states and never to where it is",
    (_name, moves, states) => {
      expect(Object.keys(moves).toSorted()).toEqual(states.toSorted());
      for (const [from, targets] of Object.entries(moves)) {
        expect(targets).not.toContain(from);
        expect(new Set(targets).size).toBe(targets.length);
        for (const to of targets) expect(states).toContain(to);
      }
    },
  );

  test.each(machines)(
    "of a %s allows exactly the moves of its table and names the others",
    (_name, moves, states) => {
      for (const from of states) {
        for (const to of states) {
          const attempt = () => assertMove(moves, "x-1", from, to);
          expect(canMove(moves, from, to)).toBe(moves[from]?.includes(to) ?? false);
          if (canMove(moves, from, to)) attempt();
          else expect(attempt).toThrow(`x-1 is ${from} and cannot become ${to}`);
        }
      }
    },
  );

  test("says what is possible instead, or that nothing is", () => {
    const refusal = (from: "done" | "todo") => {
      try {
        assertMove(TASK_MOVES, "t-1", from, "blocked");
      } catch (error) {
        return error;
      }
    };
    expect(refusal("done")).toMatchObject({ code: "illegal_transition", hint: "done is final" });
    expect(refusal("todo")).toMatchObject({ hint: "from todo it can become queued, done, cancelled" });
  });

  test("of a task: any open one can be done or cancelled, a closed one is final, only a waiting one is not ready", () => {
    const closing = TASK_STATUSES.filter((status) => canMove(TASK_MOVES, status, "done"));
    expect(closing).toEqual(TASK_STATUSES.filter(isOpen));
    expect(TASK_STATUSES.filter((status) => canMove(TASK_MOVES, status, "cancelled"))).toEqual(closing);
    expect(TASK_STATUSES.filter((status) => TASK_MOVES[status].length === 0)).toEqual(["done", "cancelled"]);
    expect(TASK_STATUSES.filter((status) => canMove(TASK_MOVES, status, "in_progress"))).toEqual(["queued"]);
  });
});

describe("the database allows exactly what the domain knows", () => {
  function tableSql(which: "ledger" | "mail", table: string): string {
    using folder = tempFolder();
    const file = `${folder.path}/fresh.db`;
    (which === "ledger" ? openLedger : openMail)(file, { mayUpgrade: true }).close();
    const db = new Database(file, { readonly: true });
    const row = db
      .query<{ sql: string }, [string]>("SELECT sql FROM sqlite_master WHERE name = ?")
      .get(table);
    db.close();
    return row?.sql ?? "";
  }

  /** The values of the last `column IN (...)` after a mark in a table's definition. */
  function listed(sql: string, mark: string, column: string): string[] {
    const list = new RegExp(`\\b${column} IN \\(([^)]*)\\)`).exec(sql.slice(sql.indexOf(mark)))?.[1] ?? "";
    return [...list.matchAll(/'([^']*)'/g)].map(([, value]) => value ?? "");
  }

  test.each([
    ["ledger", "sessions", "state TEXT", "state", SESSION_STATES],
    ["ledger", "sessions", "reason TEXT", "reason", WAITING_REASONS],
    ["ledger", "tasks", "kind TEXT", "kind", TASK_KINDS],
    ["ledger", "tasks", "ELSE status", "status", TASK_STATUSES],
    ["ledger", "tasks", "priority TEXT", "priority", PRIORITIES],
    ["ledger", "merge_entries", "priority TEXT", "priority", PRIORITIES],
    ["mail", "messages", "type TEXT", "type", MESSAGE_TYPES],
    ["mail", "messages", "priority TEXT", "priority", PRIORITIES],
  ] as const)("%s: %s, %s", (which, table, mark, column, values) => {
    expect(listed(tableSql(which, table), mark, column)).toEqual([...values]);
  });

  test("ledger: the states in which a name is taken are the live ones", () => {
    expect(listed(tableSql("ledger", "one_live_session_per_name"), "WHERE", "state")).toEqual([...LIVE]);
  });
});

describe("a name", () => {
  test.each(["a", "ada", "a-1", "x".repeat(40), "auto", "auto-x", "humans", "all-1"])("may be %s", (name) => {
    expect(isAgentName(name)).toBe(true);
    assertAgentName(name);
  });

  test.each([
    ["orchestrator", "name_reserved"],
    ["human", "name_reserved"],
    ["overseer", "name_reserved"],
    ["remediation", "name_reserved"],
    ["all", "name_reserved"],
    ["auto-0", "name_reserved"],
    ["auto-17", "name_reserved"],
    ["", "name_invalid"],
    ["Ada", "name_invalid"],
    ["1a", "name_invalid"],
    ["-a", "name_invalid"],
    ["a b", "name_invalid"],
    ["a\n", "name_invalid"],
    ["a/b", "name_invalid"],
    ["..", "name_invalid"],
    ["@all", "name_invalid"],
    ["é", "name_invalid"],
    ["x".repeat(41), "name_invalid"],
  ])("may not be %j", (name, code) => {
    expect(isAgentName(name)).toBe(false);
    expect(() => assertAgentName(name)).toThrow(expect.objectContaining({ code }));
  });

  test("of whatever text, when accepted, is safe as a file, a branch and an argument", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[a-z0-9._/-]{0,45}$/)), (text) => {
        if (isAgentName(text)) expect(text).toMatch(/^[a-z][a-z0-9-]{0,39}$/);
        if (!isTaskId(text)) return;
        expect(text).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/);
        expect(text).not.toMatch(/\.\.|\.$|\.lock$/);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("a task id", () => {
  test.each(["1", "t-abc123", "PROJ-12", "bd-a1.2", "a_b", "x".repeat(64), "a.locked"])("may be %s", (id) => {
    expect(isTaskId(id)).toBe(true);
    assertTaskId(id);
  });

  test.each([
    "",
    "-a",
    ".a",
    "_a",
    "a..b",
    "a.",
    "a.lock",
    "a/b",
    "a b",
    "a\n",
    "é",
    "x".repeat(65),
    "--help",
  ])("may not be %j", (id) => {
    expect(isTaskId(id)).toBe(false);
    expect(() => assertTaskId(id)).toThrow(expect.objectContaining({ code: "task_id_invalid" }));
  });

  test("or a name in a message is on one line, bounded and without control characters", () => {
    fc.assert(
      fc.property(
        fc.string({
          unit: fc.constantFrom(...'a"\n\t\u001b\u007f\u0085\u009b\ud800\u{1f600}'),
          maxLength: 300,
        }),
        (text) => {
          expect(quote(text).length).toBeLessThanOrEqual(62 * 6);
          expect(quote(text)).not.toMatch(/\p{Cc}/u);
        },
      ),
    );
  });
});

describe("a hook event", () => {
  const known = {
    session_id: fc.oneof(fc.string(), fc.jsonValue()),
    agent_id: fc.oneof(fc.constant(undefined), fc.string(), fc.jsonValue()),
    tool_name: fc.oneof(fc.constantFrom("Bash", "Write", "Edit"), fc.jsonValue()),
    tool_input: fc.oneof(
      fc.jsonValue({ maxDepth: 6 }),
      fc.record({ command: fc.string(), file_path: fc.jsonValue() }),
    ),
    tool_response: fc.oneof(fc.jsonValue({ maxDepth: 6 }), fc.record({ stdout: fc.jsonValue() })),
    duration_ms: fc.jsonValue(),
    error: fc.jsonValue(),
    error_details: fc.jsonValue(),
    source: fc.oneof(fc.constantFrom("startup", "compact"), fc.jsonValue()),
    reason: fc.oneof(fc.constant("clear"), fc.jsonValue()),
    message: fc.jsonValue(),
    notification_type: fc.oneof(fc.constantFrom("permission_prompt", "elicitation_dialog"), fc.jsonValue()),
    last_assistant_message: fc.jsonValue(),
    stop_hook_active: fc.jsonValue(),
  };
  const payloadText = fc.oneof(
    fc.record(known, { requiredKeys: [] }).map((value) => JSON.stringify(value)),
    fc.dictionary(fc.string(), fc.jsonValue()).map((value) => JSON.stringify(value)),
    fc.json(),
    fc.string(),
  );
  const MAX_DATA = 96 * 1024;

  function expectSound(payload: HookPayload): void {
    for (const event of HOOK_EVENTS) {
      for (const isRedacting of [true, false]) {
        const meaning = interpret(event, payload, { isWorker: true, isRedacting, now: 0 });
        const json = JSON.stringify(meaning.data);
        expect(json.length).toBeLessThanOrEqual(MAX_DATA);
        expect(JSON.parse(json)).toBeObject();
        expect(JSON.stringify(meaning.call).length).toBeLessThanOrEqual(MAX_DATA);
        if (payload.subagentId !== null)
          expect(meaning).toMatchObject({ signal: { kind: "noticed" }, tool: null });
      }
    }
  }

  test("with whatever JSON is understood without an error, and what is kept of it is bounded", () => {
    fc.assert(
      fc.property(payloadText, (text) => {
        const payload = readPayload(text);
        if (payload) expectSound(payload);
      }),
      { numRuns: 400 },
    );
  });

  test("as large as anybody can make it leaves a bounded trace", () => {
    const wide = (depth: number): unknown =>
      depth === 0
        ? "\u0001é".repeat(3_000)
        : Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`k${n}`, wide(depth - 1)]));
    const long = "\u0001".repeat(100_000);
    const huge = { tool_name: long, tool_input: wide(2), tool_response: wide(2), error: long, message: long };
    for (const more of [{}, { agent_id: long, reason: long, source: long, last_assistant_message: long }]) {
      const payload = readPayload(JSON.stringify({ ...huge, ...more }));
      if (!payload) throw new Error("it is a JSON object");
      expectSound(payload);
    }
  });

  test("is known by Claude Code's name and by the name of the log command, and by no other", () => {
    for (const event of HOOK_EVENTS) expect(toHookEvent(event)).toBe(event);
    expect(Object.values(LOG_NAMES).toSorted()).toEqual([...HOOK_EVENTS].toSorted());
    for (const [name, event] of Object.entries(LOG_NAMES)) expect(toHookEvent(name)).toBe(event);
    for (const text of ["", "toString", "__proto__", "constructor", "stop"])
      expect(toHookEvent(text)).toBeNull();
  });
});
