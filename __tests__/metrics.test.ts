import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { costOf } from "../src/domain/pricing.ts";
import { readAnswer, speakerOf } from "../src/domain/usage.ts";
import { readStatus } from "../src/flows/status.ts";
import { recordEnded, recordUsage } from "../src/flows/usage.ts";
import type { Ledger, Session } from "../src/store/contract.ts";
import { isBesideDatabase, snapshot, type TempProject, tempProject } from "./support/cli.ts";
import { startFleet } from "./support/fleet.ts";
import { until } from "./support/until.ts";

const FIXTURES = join(import.meta.dir, "fixtures/transcripts");

interface Tokens {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite5m: number;
  cacheWrite1h: number;
}
const NONE: Tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0 };

interface SumView {
  sessions: number;
  durationMs: number;
  answers: number;
  tokens: Tokens;
  cost: number | null;
  unpricedModels: string[];
}
type SessionView = Omit<SumView, "sessions"> & { id: string; name: string; mergeTier: string | null };
interface MetricsView {
  sessions: SessionView[];
  agents: (SumView & { name: string })[];
  tasks: (SumView & { id: string })[];
  total: SumView;
  unread: { name: string; sessionId: string; path: string; why: string }[];
}

describe("what a million tokens cost", () => {
  const MILLION = 1_000_000;
  // By hand from the price list, USD: input, output, cache read, 5m write, 1h write. Claude Code 2.1.326 says the same.
  test.each([
    ["claude-opus-5-5", 4, 20, 0.2, 5, 8],
    ["claude-opus-4-5-20251101", 5, 25, 0.5, 6.25, 10],
    ["claude-fable-5-1", 10, 50, 0.25, 12.5, 20],
    ["claude-sonnet-5-5", 2, 10, 0.1, 2.5, 4],
    ["claude-sonnet-4-20250514", 3, 15, 0.3, 3.75, 6],
    ["claude-haiku-4-5-20251001", 1, 5, 0.1, 1.25, 2],
  ])("of %s", (model, input, output, cacheRead, write5m, write1h) => {
    const cost = (tokens: Partial<Tokens>) => costOf(model, { ...NONE, ...tokens }, 0);
    expect(cost({ input: MILLION })).toBe(input);
    expect(cost({ output: MILLION })).toBe(output);
    expect(cost({ cacheRead: MILLION })).toBeCloseTo(cacheRead, 9);
    expect(cost({ cacheWrite5m: MILLION })).toBe(write5m);
    expect(cost({ cacheWrite1h: MILLION })).toBe(write1h);
  });

  test("depends on the length of the prompt where the list says so", () => {
    const cost = (tokens: Partial<Tokens>) => costOf("claude-haiku-5-5", { ...NONE, ...tokens }, 0);
    expect(cost({ input: 100_000 })).toBeCloseTo(0.01, 9);
    expect(cost({ input: 100_001 })).toBeCloseTo(0.0500005, 9);
    expect(cost({ cacheRead: 300_000, output: 100_000 })).toBeCloseTo(0.015 + 0.25, 9);
  });

  test("is not known for a model that is not in the list", () => {
    for (const model of ["claude-opus-9", "opus", "toString", "us.anthropic.claude-opus-5-5-v1:0", ""]) {
      expect(costOf(model, { ...NONE, input: MILLION }, 0)).toBeNull();
    }
  });

  test("a web search is paid for itself", () => {
    expect(costOf("claude-opus-5-5", { ...NONE, input: MILLION }, 3)).toBeCloseTo(4.03, 9);
  });
});

const AT = "2026-11-18T15:09:30.000Z";

/** A line of a transcript; what is undefined is not in it. */
function line(id: string, usage: object, extra: object = {}, message: object = {}): string {
  return JSON.stringify({
    type: "assistant",
    timestamp: AT,
    requestId: `req_${id}`,
    message: { id: `msg_${id}`, model: "claude-opus-5-5", role: "assistant", usage, ...message },
    ...extra,
  });
}

describe("a line of a transcript", () => {
  const usage = { input_tokens: 1_000_000, output_tokens: 0 };
  test.each<[string, string]>([
    ["of the person", JSON.stringify({ type: "user", message: { role: "user", usage } })],
    ["that Claude Code wrote itself", line("a", usage, {}, { model: "<synthetic>" })],
    ["that tells of an error of the API", line("a", usage, { isApiErrorMessage: true })],
    ["without usage", line("a", [], {}, { usage: undefined })],
    ["whose message is a text", JSON.stringify({ type: "assistant", message: "usage" })],
    ["that cannot be told from others", line("a", usage, { uuid: undefined }, { id: 7 })],
  ])("%s counts nothing", (_name, text) => expect(readAnswer(text)).toBeNull());

  test.each(["", "{", "null", "[1]", '"usage"'])("%j is damaged", (text) =>
    expect(readAnswer(text)).toBe("damaged"),
  );

  test.each<[object, number | null]>([
    [{ speed: "standard", service_tier: "standard", inference_geo: "" }, 4],
    [{ speed: "fast" }, null],
    [{ service_tier: "priority" }, null],
    [{ inference_geo: "us" }, null],
  ])("at other than list prices has no known cost: %j", (extra, cost) =>
    expect(readAnswer(line("a", { ...usage, ...extra }))).toMatchObject({ cost }),
  );

  test("takes numbers that make no sense for none", () => {
    const odd = {
      ...{ input_tokens: -5, output_tokens: "7", cache_read_input_tokens: 1.5 },
      ...{ cache_creation_input_tokens: 10, cache_creation: { ephemeral_1h_input_tokens: 4 } },
    };
    expect(readAnswer(line("a", odd, { timestamp: "once" }))).toMatchObject({
      at: null,
      tokens: { ...NONE, cacheWrite5m: 6, cacheWrite1h: 4 },
    });
  });

  test("belongs to whoever had begun last when it was said", () => {
    const owners = [{ startedAt: 10 }, { startedAt: 20 }];
    expect([9, 10, 19, 20, 99, null].map((at) => speakerOf(owners, at)?.startedAt ?? null)).toEqual([
      null,
      10,
      10,
      20,
      20,
      20,
    ]);
  });
});

/** The moment of the recorded run, with these seconds. */
const at = (seconds: number) => Date.parse("2026-11-18T15:09:00.000Z") + seconds * 1_000;

interface Life {
  id: string;
  name?: string;
  taskId?: string;
  startedAt?: number;
  endedAt?: number | null;
  /** In the order of the SessionStart events that named them. */
  transcripts: string[];
  /** Nobody has said anything to it. */
  isUnprompted?: boolean;
}

/** A session as its hooks have recorded it. */
async function live(
  ledger: Ledger,
  {
    id,
    name = "ada",
    taskId = "t-1",
    startedAt = at(30),
    endedAt = at(60),
    transcripts,
    isUnprompted = false,
  }: Life,
): Promise<Session> {
  const logFolder = `${name}/${id}`;
  await ledger.registerSession({
    id,
    name,
    capability: "builder",
    tokenHash: id,
    startedAt,
    logFolder,
    taskId,
  });
  const happen = (type: "session.started" | "session.prompted", transcript: string) =>
    ledger.recordActivity(
      { sessionId: id },
      {
        at: startedAt,
        signal: type === "session.started" ? { kind: "started", isIdle: false } : { kind: "active" },
        event: type,
        data: type === "session.started" ? { source: "startup", transcript } : {},
        transcriptPath: transcript,
      },
    );
  for (const transcript of transcripts) {
    await happen("session.started", transcript);
    if (!isUnprompted) await happen("session.prompted", transcript);
  }
  if (endedAt !== null) {
    const end = { state: "stopped" as const, cause: "stopped by human", at: endedAt };
    await ledger.endSession(id, end, { at: endedAt, type: "session.stopped", agent: name, sessionId: id });
  }
  const found = await ledger.findSession({ sessionId: id });
  if (!found) throw new Error(`${id} was not made`);
  return found.session;
}

async function metricsOf(project: TempProject, ...args: string[]): Promise<MetricsView> {
  return (await project.overseer(["metrics", ...args, "--json"])).data<MetricsView>();
}

/**
 * A run of Claude Code 2.1.326 with a scripted model, counted by hand. Its first answer stands in three lines, the first
 * of them with an unfinished count; the fork repeats everything of the conversation it was made from; an error of the
 * API has a line of its own.
 *
 * | file                          | answer   | model     | input | output | read | 5m  | 1h  | USD by the million          |
 * | ----------------------------- | -------- | --------- | ----- | ------ | ---- | --- | --- | --------------------------- |
 * | first                         | dd3eb6b7 | opus 5.5  | 100   | 20     | 7000 | 400 | 500 | 400+400+1400+2000+4000=8200 |
 * | first                         | 0b2e7aaa | opus 5.5  | 200   | 30     |      |     |     | 800+600=1400                |
 * | first                         | f5308c47 | opus 5.5  | 300   | 40     |      |     |     | 1200+800=2000               |
 * | first/subagents/agent-helper  | 566a4d29 | haiku 5.5 | 1000  | 50     |      |     |     | 100+25=125                  |
 * | first/subagents/agent-helper  | 4ff4f94a | haiku 5.5 | 2000  | 60     | 500  |     |     | 200+30+5=235                |
 * | sum of the first incarnation  | 5        |           | 3600  | 200    | 7500 | 400 | 500 | 11960                       |
 * | first, after the resume       | 6f5392c4 | opus 5.5  | 400   | 70     |      |     |     | 1600+1400=3000              |
 * | cleared                       | 8fcf5f15 | opus 5.5  | 500   | 80     |      |     |     | 2000+1600=3600              |
 * | forked, and all of the first  | d175a08f | opus 5.5  | 600   | 90     |      |     |     | 2400+1800=4200              |
 * | sum of the second incarnation | 3        |           | 1500  | 240    |      |     |     | 10800                       |
 *
 * Claude Code itself says 0.01496 for the first file, 0.0036 for the cleared one, and 0.01916 after the fork.
 */
const FIRST = {
  answers: 5,
  tokens: { input: 3_600, output: 200, cacheRead: 7_500, cacheWrite5m: 400, cacheWrite1h: 500 },
  cost: 0.01196,
  unpricedModels: [],
};
const SECOND = {
  answers: 3,
  tokens: { ...NONE, input: 1_500, output: 240 },
  cost: 0.0108,
  unpricedModels: [],
};
const BOTH = {
  answers: 8,
  tokens: { input: 5_100, output: 440, cacheRead: 7_500, cacheWrite5m: 400, cacheWrite1h: 500 },
  cost: 0.02276,
  unpricedModels: [],
};

describe("a recorded run", () => {
  let project: TempProject;
  let folder: string;
  let sessions: Session[];

  beforeAll(async () => {
    project = await tempProject();
    folder = join(project.path, "home");
    cpSync(FIXTURES, folder, { recursive: true });
    const files = ["first", "cleared", "forked"].map((name) => `${folder}/${name}.jsonl`);
    const [first = "", cleared = "", forked = ""] = files;
    sessions = await project.open(async ({ ledger }) => [
      await live(ledger, { id: "ses-1", startedAt: at(30), endedAt: at(31), transcripts: [first] }),
      await live(ledger, {
        ...{ id: "ses-2", startedAt: at(31.2), endedAt: at(151.2) },
        transcripts: [first, cleared, forked],
      }),
    ]);
  });
  afterAll(() => project.remove());

  async function expectHandCount(): Promise<void> {
    const { sessions: shown, agents, tasks, total, unread } = await metricsOf(project);
    expect(shown).toEqual([
      expect.objectContaining({ id: "ses-1", durationMs: 1_000, mergeTier: null, ...FIRST }),
      expect.objectContaining({ id: "ses-2", durationMs: 120_000, mergeTier: null, ...SECOND }),
    ]);
    expect(agents).toEqual([{ name: "ada", sessions: 2, durationMs: 121_000, ...BOTH }]);
    expect(tasks).toEqual([{ id: "t-1", sessions: 2, durationMs: 121_000, ...BOTH }]);
    expect(total).toEqual({ sessions: 2, durationMs: 121_000, ...BOTH });
    expect(unread).toEqual([]);
  }

  test("equals the count by hand, and looking at it changes nothing", async () => {
    const before = snapshot(project.path, { except: isBesideDatabase });
    await expectHandCount();
    const status = (await project.overseer(["status", "--json"])).data<{ agents: object[] }>();
    expect(status.agents).toEqual([
      expect.objectContaining({ name: "ada", cost: BOTH.cost, tokens: BOTH.tokens }),
    ]);
    expect(snapshot(project.path, { except: isBesideDatabase })).toEqual(before);
  });

  test("is a table that a person understands", async () => {
    const { stdout } = await project.overseer(["metrics"]);
    expect(stdout.split("\n")).toEqual([
      "agent  task  outcome      time    in  out  cached   cost  merged",
      "ada    t-1   stopped        1s  4.5k  200    7.5k  $0.01  -",
      "ada    t-1   stopped        2m  1.5k  240       0  $0.01  -",
      "total        2 sessions  2m 1s  6.0k  440    7.5k  $0.02",
      "",
    ]);
    expect((await project.overseer(["status"])).stdout).toMatch(/^ada +builder +stopped .*\$0\.02$/m);
  });

  test("of which only the last sessions are asked for gives each of them its own", async () => {
    const { sessions: shown, total } = await metricsOf(project, "--last", "1");
    expect(shown).toEqual([expect.objectContaining({ id: "ses-2", ...SECOND })]);
    expect(total).toEqual({ sessions: 1, durationMs: 120_000, ...SECOND });
  });

  test("is counted once, however often it is recorded, and stays when the transcripts are gone", async () => {
    await project.open(async (opened) => {
      const [, second] = sessions;
      if (second) await recordUsage(opened, second);
      await expectHandCount();
      await recordEnded(opened);
      await recordEnded(opened);
      for (const session of sessions) await recordUsage(opened, session);
      expect(await opened.ledger.uncountedSessions()).toEqual([]);
    });
    await expectHandCount();
    rmSync(folder, { recursive: true });
    await expectHandCount();
  });

  test("and how its branch was merged", async () => {
    await project.open(async ({ ledger }) => {
      await live(ledger, { id: "ses-3", name: "bob", taskId: "t-9", endedAt: null, transcripts: [] });
      const entry = { id: "mrg-3", branch: "overseer/bob/t-9", commit: "c0ffee", into: "main", files: [] };
      const event = { at: at(70), type: "session.completed" as const, agent: "bob", sessionId: "ses-3" };
      await ledger.completeSession("ses-3", { entry, reason: "done", at: at(70) }, event);
    });
    using database = new Database(join(project.path, ".overseer/sessions.db"));
    database.run("UPDATE merge_entries SET tier = 'clean-merge', status = 'merged'");
    expect((await metricsOf(project, "--last", "1")).sessions).toEqual([
      expect.objectContaining({ name: "bob", state: "completed", mergeTier: "clean-merge", cost: null }),
    ]);
    expect((await project.overseer(["metrics"])).stdout).toMatch(
      /^bob +t-9 +completed +40s +- +- +- +- +clean-merge$/m,
    );
  });
});

describe("transcripts that are damaged, missing or strange", () => {
  let project: TempProject;
  const place = (name: string) => join(project.path, "home", name);
  const write = (name: string, ...lines: string[]) => writeFileSync(place(name), lines.join("\n"));
  const usage = { input_tokens: 1_000_000, output_tokens: 5 };

  beforeAll(async () => {
    project = await tempProject();
    mkdirSync(place("folder.jsonl"), { recursive: true });
    mkdirSync(place("huge/subagents"), { recursive: true });
    write("cut.jsonl", line("cut-1", usage), line("cut-2", usage).slice(0, -30));
    write("garbage.jsonl", line("gar-1", usage), `\0\0\0"usage"`, '{"usage":}', "", line("gar-2", usage), "");
    write(
      "huge.jsonl",
      JSON.stringify({ type: "user", text: "x".repeat(5_000_000) }),
      line("huge-1", usage),
      "",
    );
    write("huge/subagents/agent-1.jsonl", line("huge-2", usage, {}, { content: "y".repeat(5_000_000) }), "");
    writeFileSync(place("huge/subagents/agent-1.meta.json"), line("huge-3", usage));
    write("unended.jsonl", line("une-1", usage), line("une-2", usage));
    write("strange.jsonl", line("str-1", usage, {}, { model: "claude-opus-99" }), line("str-2", usage), "");
    write(
      "older.jsonl",
      line("old-1", usage, { timestamp: "2026-11-18T15:00:00.000Z" }),
      line("old-2", usage),
      "",
    );
    writeFileSync(place("beside.jsonl"), `${line("bes-1", usage)}\n`);
    writeFileSync(place("beside"), "no folder");
    const names = ["cut", "garbage", "huge", "unended", "strange", "older", "beside", "missing", "folder"];
    await project.open(async ({ ledger }) => {
      for (const name of names) {
        await live(ledger, {
          id: `ses-${name}`,
          name,
          taskId: `t-${name}`,
          transcripts: [place(`${name}.jsonl`)],
        });
      }
      await live(ledger, {
        id: "ses-unborn",
        name: "unborn",
        isUnprompted: true,
        transcripts: [place("unborn.jsonl")],
      });
    });
  });
  afterAll(() => project.remove());

  /** Each answer is a million tokens of input, so four dollars and next to nothing. */
  async function expectCounted(): Promise<void> {
    const { sessions, total, unread } = await metricsOf(project);
    const counts = Object.fromEntries(sessions.map(({ name, tokens, cost }) => [name, [tokens.input, cost]]));
    expect(counts).toEqual({
      cut: [1_000_000, 4.0001],
      garbage: [2_000_000, 8.0002],
      huge: [2_000_000, 8.0002],
      unended: [2_000_000, 8.0002],
      strange: [2_000_000, 4.0001],
      older: [1_000_000, 4.0001],
      beside: [1_000_000, 4.0001],
      missing: [0, null],
      folder: [0, null],
      unborn: [0, null],
    });
    expect(total).toMatchObject({
      sessions: 10,
      answers: 11,
      cost: 40.001,
      unpricedModels: ["claude-opus-99"],
    });
    expect(Object.fromEntries(unread.map(({ name, why }) => [name, why]))).toEqual({
      cut: "its last line is cut off",
      garbage: "2 of its lines are damaged",
      missing: "there is no such file",
      folder: "it is a folder",
    });
    expect(unread).toHaveLength(4);
  }

  test("are counted as far as they can be read, and the rest is said", async () => {
    await expectCounted();
    const { stdout, stderr, exitCode } = await project.overseer(["metrics"]);
    expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
    expect(stdout).toMatch(/^strange .* \$4\.00\+ /m);
    expect(stdout).toMatch(/^missing +t-missing +stopped +30s +- +- +- +- +-$/m);
    expect(stdout).toContain(
      "at least $40.00 in all: there is no price for what was answered by claude-opus-99\n",
    );
    expect(stdout).toContain(`not counted of folder: ${place("folder.jsonl")}: it is a folder\n`);
  });

  test("are counted and told of alike once they are recorded", async () => {
    await project.open((opened) => recordEnded(opened));
    await expectCounted();
  });

  test("that go on after their middle was recorded are counted to their end", async () => {
    const path = place("growing.jsonl");
    writeFileSync(path, `${line("gro-1", { input_tokens: 10, output_tokens: 1 })}\n`);
    const seen = async () => {
      const [session] = (await metricsOf(project, "--last", "1")).sessions;
      return [session?.answers, session?.tokens.input, session?.tokens.output];
    };
    await project.open(async (opened) => {
      const life = { id: "ses-growing", name: "growing", endedAt: null, transcripts: [path] };
      const session = await live(opened.ledger, life);
      await recordUsage(opened, session);
      // The rest of the answer whose beginning was recorded, then half of the next one.
      appendFileSync(path, `${line("gro-1", { input_tokens: 10, output_tokens: 30 })}\n`);
      appendFileSync(path, line("gro-2", { input_tokens: 20, output_tokens: 2 }).slice(0, 40));
      expect(await seen()).toEqual([1, 10, 30]);
      expect((await metricsOf(project, "--last", "1")).unread).toEqual([]);
      await recordUsage(opened, session);
      appendFileSync(path, `${line("gro-2", { input_tokens: 20, output_tokens: 2 }).slice(40)}\n`);
      expect(await seen()).toEqual([2, 30, 32]);
      await recordUsage(opened, session);
      // Repeated, and shorter than before.
      appendFileSync(path, `${line("gro-1", { input_tokens: 10, output_tokens: 1 })}\n`);
      await recordUsage(opened, session);
      expect(await seen()).toEqual([2, 30, 32]);
    });
  });

  test("that are looked at again and again are read on from where they were", async () => {
    const path = place("watched.jsonl");
    writeFileSync(path, `${line("wat-1", usage)}\n`);
    await project.open(async (opened) => {
      await live(opened.ledger, { id: "ses-watched", name: "watched", endedAt: null, transcripts: [path] });
      const memory = new Map();
      const seen = async () => {
        const { agents } = await readStatus(opened, memory);
        return agents.find(({ session }) => session.name === "watched")?.usage.answers;
      };
      expect(await seen()).toBe(1);
      const readTo = () => memory.get(path)?.mark.readTo;
      const before = readTo();
      // What was read before is not read again.
      writeFileSync(path, `${" ".repeat(before - 1)}\n${line("wat-2", usage)}\n`);
      expect(await seen()).toBe(2);
      expect(readTo()).toBeGreaterThan(before);
      expect(await seen()).toBe(2);
    });
  });

  test("of two workers of one name are told apart by their sessions", async () => {
    const [first, second] = [place("one.jsonl"), place("two.jsonl")];
    writeFileSync(
      first,
      `${line("one-1", usage)}\n${line("one-2", usage, { timestamp: "2026-11-18T15:12:00Z" })}\n`,
    );
    writeFileSync(second, `${line("two-1", usage, { timestamp: "2026-11-18T15:12:00Z" })}\n`);
    await project.open(async ({ ledger }) => {
      await live(ledger, { id: "ses-old", name: "twin", taskId: "t-old", transcripts: [first] });
      const next = { id: "ses-new", name: "twin", taskId: "t-new", startedAt: at(120), endedAt: null };
      await live(ledger, { ...next, transcripts: [second] });
    });
    const { sessions, tasks } = await metricsOf(project, "--last", "2");
    expect(sessions.map(({ id, answers }) => [id, answers])).toEqual([
      ["ses-old", 2],
      ["ses-new", 1],
    ]);
    expect(tasks.map(({ id, answers }) => [id, answers])).toEqual([
      ["t-old", 2],
      ["t-new", 1],
    ]);
    const status = (await project.overseer(["status", "--json"])).data<{
      agents: { name: string; tokens: Tokens; cost: number }[];
    }>();
    expect(status.agents.find(({ name }) => name === "twin")).toMatchObject({
      tokens: { input: 1_000_000 },
      cost: 4.0001,
    });
  });
});

test("with no session at all there is nothing to add up", async () => {
  const project = await tempProject();
  expect((await project.overseer(["metrics"])).stdout).toBe(
    "No sessions yet: overseer sling starts a worker.\n",
  );
  expect(await metricsOf(project)).toMatchObject({ sessions: [], agents: [], tasks: [], unread: [] });
  expect((await project.overseer(["metrics", "--last", "none", "--json"])).error().code).toBe("usage");
  project.remove();
});

test("a real worker's tokens are those that the model sent, also after a resume and of its subagent", async () => {
  await using fleet = await startFleet({
    tell(model) {
      model.whenPrompt("HELPER").says("helped").costing({ input_tokens: 20_000, output_tokens: 9 }).mayGoOn();
      model
        .whenPrompt("were interrupted at")
        .usesAgent("HELPER, look")
        .costing({ input_tokens: 4_000, output_tokens: 400 })
        .says("Done.")
        .mayGoOn();
      model
        .whenPrompt("You are ada")
        .says("I begin.")
        .and("Bash", { command: "true" })
        .costing({ input_tokens: 1_000, output_tokens: 100, cache_read_input_tokens: 7 })
        .says("So far.")
        .costing({ input_tokens: 300, output_tokens: 30 });
    },
  });
  const counts = async () => {
    const answer = await fleet.overseer(["metrics", "--json"]);
    const { sessions, total, unread } = answer.data<MetricsView>();
    expect(unread).toEqual([]);
    const { answers, tokens } = total;
    return {
      first: sessions[0]?.tokens.input,
      total: [answers, tokens.input, tokens.output, tokens.cacheRead],
    };
  };
  const sent = () => {
    const { sent: all } = fleet.model;
    const sum = (of: (usage: (typeof all)[number]) => number) => all.reduce((n, usage) => n + of(usage), 0);
    const tokens = [
      sum((u) => u.input_tokens),
      sum((u) => u.output_tokens),
      sum((u) => u.cache_read_input_tokens),
    ];
    return [all.length, ...tokens];
  };
  // Claude Code writes the last line down after its Stop hook.
  const untilCounted = (answers: number) =>
    until(
      `${answers} answers are counted`,
      async () => {
        const { first, total } = await counts();
        return first === 1_300 && fleet.model.sent.length >= answers && Bun.deepEquals(total, sent());
      },
      { timeoutMs: 30_000 },
    );
  await fleet.sling("ada", "Say hello", "--model", "claude-opus-5-5");
  await fleet.untilState("ada", "idle");
  await untilCounted(2);
  (await fleet.overseer(["stop", "ada", "--json"])).data();
  expect(await fleet.open(({ ledger }) => ledger.uncountedSessions())).toEqual([]);
  (await fleet.overseer(["resume", "ada", "--json"])).data();
  await untilCounted(5);
  fleet.model.verify();
});
