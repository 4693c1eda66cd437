import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SPAWN_STEPS, type SpawnStep } from "../src/domain/spawn.ts";
import type { Session } from "../src/store/contract.ts";
import { transcriptOf } from "./support/claude.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import {
  commandOf,
  gateFor,
  isRunning,
  killClaude,
  killHard,
  ledgerRows,
  panesOf,
  processesIn,
  readLedger,
  remainsOf,
  slowDown,
  spawnOf,
  startOverseer,
} from "./support/kill.ts";
import type { Model } from "./support/model-server.ts";
import { type TempFolder, tempFolder } from "./support/temp.ts";
import { until } from "./support/until.ts";

const AT_ONCE = { timeoutMs: 30_000, everyMs: 1 };

async function newTask(fleet: Fleet): Promise<string> {
  const answer = await fleet.overseer(["task", "create", "Make a thing", "--json"]);
  return answer.data<{ task: { id: string } }>().task.id;
}

async function statusOf(fleet: Fleet, taskId: string | null): Promise<string | undefined> {
  return (await fleet.open((project) => project.ledger.findTask(taskId ?? "")))?.status;
}

const slingArgs = (name: string, what: string) => ["sling", what, "--name", name, "--capability", "builder"];

/** Starts a sling and kills it when others can see that it stands at this step, or a moment after that. */
async function killSlingAt(fleet: Fleet, name: string, what: string, step: SpawnStep, afterMs: number) {
  const before = spawnOf(fleet, name)?.id;
  using _ = slowDown(fleet, [step]);
  const sling = startOverseer(fleet, ...slingArgs(name, what));
  await until(
    `the sling of ${name} stands at ${step}`,
    () => {
      if (sling.hasEnded) throw new Error(`the sling of ${name} ended before it was killed`);
      const row = spawnOf(fleet, name);
      return row !== null && row.id !== before && row.step === step;
    },
    AT_ONCE,
  );
  await sling.kill(afterMs);
}

/** The killed sling has either come to nothing, or its Claude Code goes on as if nothing had happened. */
async function expectSettled(fleet: Fleet, name: string, undoneTask: string): Promise<void> {
  const session = await fleet.session(name);
  if (session.state === "failed") {
    expect(await remainsOf(fleet, name)).toEqual([]);
    expect(await statusOf(fleet, session.taskId)).toBe(undoneTask);
    return;
  }
  expect(isRunning(session.pid)).toBe(true);
  expect(spawnOf(fleet, name)).toMatchObject({ id: session.id, state: "done" });
  expect(["launch", "confirm"]).toContain(spawnOf(fleet, name)?.step ?? "");
  expect(await statusOf(fleet, session.taskId)).toBe("in_progress");
  await fleet.untilState(name, "idle");
  await putAway(fleet, name);
}

/** Slung anew; or, where its Claude Code had been launched already, that one was taken over. */
async function expectSlungAgain(fleet: Fleet, name: string, taskId: string): Promise<void> {
  const killed = spawnOf(fleet, name)?.id ?? "";
  const answer = await fleet.overseer([...slingArgs(name, taskId), "--json"]);
  const session = await fleet.session(name);
  if (answer.exitCode === 0) expect(session.id).not.toBe(killed);
  else expect([answer.error().code, session.id]).toEqual(["name_taken", killed]);
  expect(isRunning(session.pid)).toBe(true);
  expect(await statusOf(fleet, taskId)).toBe("in_progress");
  expect(panesOf(fleet).map(({ pid }) => pid)).toEqual([session.pid ?? 0]);
  const branches = fleet.repo.git("branch", "--list", "--format=%(refname:short)", "overseer/*");
  expect(branches).toBe(`overseer/${name}/${taskId}`);
  await fleet.untilState(name, "idle");
  await putAway(fleet, name);
}

async function expectNothingToMend(fleet: Fleet): Promise<void> {
  const { exitCode, stdout } = await fleet.overseer(["doctor"]);
  expect([exitCode, stdout.match(/^(?:broken|warning).*/gm)]).toEqual([0, null]);
}

async function putAway(fleet: Fleet, name: string): Promise<void> {
  for (const args of [
    ["stop", name],
    ["worktree", "clean", name],
  ]) {
    const { exitCode, stderr } = await fleet.overseer(args);
    expect([exitCode, stderr]).toEqual([0, ""]);
  }
  expect(await remainsOf(fleet, name)).toEqual([]);
}

const WORK = [
  "echo new > new.txt",
  "git add -A",
  "git commit -qm 'Add new'",
  "overseer task close $(git branch --show-current | cut -d/ -f3) --reason 'made new.txt'",
].join(" && ");

/** ada makes a file and says that she is done; whoever else comes has nothing to do. */
function working(model: Model): void {
  model.whenPrompt("You are ada").uses("Bash", { command: WORK }).says("Finished.");
  model.whenPrompt(/./).says("Done.").mayGoOn().optional();
}

/** The same, but she ends her turn only when the test lets her. */
function ending(model: Model): void {
  model.whenPrompt("You are ada").uses("Bash", { command: WORK }).holds("end").says("Finished.");
}

/** What a completion leaves, each of it once. */
async function expectCompletedOnce(fleet: Fleet): Promise<void> {
  const session = await fleet.untilState("ada", "completed");
  const entries = await fleet.open((project) =>
    project.ledger.mergeEntries({ taskId: session.taskId ?? "" }),
  );
  const tip = fleet.repo.git("rev-parse", session.branch ?? "");
  expect(entries).toMatchObject([{ commit: tip, status: "pending", sessionId: session.id }]);
  const mail = await fleet.overseer(["mail", "list", "--from", "ada", "--json"]);
  expect(mail.data<{ messages: unknown[] }>().messages).toMatchObject([{ to: "human", type: "result" }]);
  const file = (name: string) => readFileSync(join(fleet.root, ".overseer/agents/ada", name), "utf8");
  expect(file("identity.yaml")).toContain("sessionsCompleted: 1\n");
  expect(file("work-history.md").match(/^## /gm)?.length).toBe(1);
  const events = await fleet.open((project) => project.ledger.listEvents({ agent: "ada", limit: 100 }));
  const told = events.map(({ type }) => type).filter((type) => /session.completed|merge.enqueued/.test(type));
  expect(told.toSorted()).toEqual(["merge.enqueued", "session.completed"]);
  expect(panesOf(fleet).filter((pane) => pane.session === "overseer-ada")).toEqual([]);
  expect(isRunning(session.pid)).toBe(false);
}

const jitter = () => Math.floor(Math.random() * 40);

describe("kill -9 of sling", () => {
  test("the steps that others can see are those of the domain, in their order", async () => {
    await using fleet = await startFleet();
    using _ = slowDown(fleet, SPAWN_STEPS);
    const seen = new Set<string>();
    const sling = startOverseer(fleet, ...slingArgs("ada", "Make a thing"));
    await until(
      "the sling is over",
      () => {
        const row = spawnOf(fleet, "ada");
        if (row) seen.add(row.step);
        return sling.hasEnded;
      },
      AT_ONCE,
    );
    expect((await sling.ended()).exitCode).toBe(0);
    expect([...seen]).toEqual([...SPAWN_STEPS]);
  });

  test.each(SPAWN_STEPS)(
    "at %s, the same sling again succeeds, and the others leave nothing of it",
    async (step) => {
      await using fleet = await startFleet();
      const taskId = await newTask(fleet);
      await killSlingAt(fleet, "ada", taskId, step, 0);
      await expectSlungAgain(fleet, "ada", taskId);
      await killSlingAt(fleet, "bob", taskId, step, 0);
      expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
      await expectSettled(fleet, "bob", "queued");
      await killSlingAt(fleet, "cleo", taskId, step, jitter());
      await fleet.sling("dan", "Make a third thing", "--no-wait");
      await expectSettled(fleet, "cleo", "queued");
      await killSlingAt(fleet, "eve", "Make another thing", step, jitter());
      expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
      await expectSettled(fleet, "eve", "cancelled");
      await expectNothingToMend(fleet);
    },
  );

  test("a git that outlives it, and the repair as well, leaves nothing behind", async () => {
    using tools = tempFolder();
    const git = gateFor("git", tools);
    await using fleet = await startFleet({ config: `git: { bin: ${git.bin} }\n` });
    git.close("worktree add");
    const sling = startOverseer(fleet, ...slingArgs("ada", "Make a thing"));
    await git.reached();
    await sling.kill();
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    await git.open();
    expect(await remainsOf(fleet, "ada")).toEqual([]);
  });

  test("after git has made the worktree, nothing is left", async () => {
    using tools = tempFolder();
    const git = gateFor("git", tools);
    await using fleet = await startFleet({ config: `git: { bin: ${git.bin} }\n` });
    git.close("worktree add", "after");
    const sling = startOverseer(fleet, ...slingArgs("ada", "Make a thing"));
    await git.reached();
    await sling.kill();
    await git.open();
    expect(existsSync(fleet.worktree("ada"))).toBe(true);
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    expect(await remainsOf(fleet, "ada")).toEqual([]);
  });

  test("before the process of worktrees.setup is noted, nothing of that is left either", async () => {
    await using fleet = await startFleet({ config: "worktrees: { setup: 'sleep 600; true' }\n" });
    const folder = fleet.worktree("ada");
    using _ = slowDown(fleet, ["prepare"]);
    const sling = startOverseer(fleet, ...slingArgs("ada", "Make a thing"));
    const isSettingUp = () => processesIn(folder).some((pid) => commandOf(pid).includes("sleep 600"));
    await until("the setup has been started", isSettingUp, AT_ONCE);
    await sling.kill();
    expect(spawnOf(fleet, "ada")).toMatchObject({ step: "prepare", setup: null });
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    const left = processesIn(folder);
    const commands = left.map(commandOf);
    for (const pid of left) killHard(pid);
    expect(commands).toEqual([]);
    expect(await remainsOf(fleet, "ada")).toEqual([]);
  });

  test("while worktrees.setup runs, doctor --fix ends that too", async () => {
    await using fleet = await startFleet({ config: "worktrees: { setup: 'sleep 600; true' }\n" });
    const sling = startOverseer(fleet, ...slingArgs("ada", "Make a thing"));
    await until("the setup is noted", () => spawnOf(fleet, "ada")?.setup, AT_ONCE);
    expect(processesIn(fleet.worktree("ada"))).not.toEqual([]);
    await sling.kill();
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    await until("the setup has ended", () => processesIn(fleet.worktree("ada")).length === 0);
    expect(await remainsOf(fleet, "ada")).toEqual([]);
  });

  test.each([
    ["doctor --fix", ["doctor", "--fix"]],
    ["the sling of another worker", slingArgs("bob", "Make another thing")],
  ])("a claude whose pane was open already is taken over by %s, and finishes its work", async (_, remedy) => {
    using tools = tempFolder();
    const tmux = gateFor("tmux", tools);
    await using fleet = await startFleet({ config: `tmux: { bin: ${tmux.bin} }\n`, tell: working });
    tmux.close("new-session", "after");
    const sling = startOverseer(fleet, ...slingArgs("ada", "Make a thing"));
    await tmux.reached();
    await sling.kill();
    const [pane] = panesOf(fleet);
    expect((await fleet.session("ada")).mark).toBeNull();
    await tmux.open();
    expect((await fleet.overseer(remedy)).exitCode).toBe(0);
    expect((await fleet.untilState("ada", "completed")).pid).toBe(pane?.pid ?? 0);
    expect(fleet.gitIn("ada", "show", "HEAD:new.txt")).toBe("new");
    fleet.model.verify();
  });

  test("a claude that had not begun yet is taken over, and finishes its work", async () => {
    using tools = tempFolder();
    const claude = gateFor("claude", tools);
    await using fleet = await startFleet({ config: `claude: { bin: ${claude.bin} }\n`, tell: working });
    claude.close("--session-id");
    const sling = startOverseer(fleet, ...slingArgs("ada", "Make a thing"));
    await claude.reached();
    await until("it waits for claude", () => spawnOf(fleet, "ada")?.step === "confirm");
    await sling.kill();
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    const adopted = await fleet.session("ada");
    expect([adopted.state, isRunning(adopted.pid)]).toEqual(["booting", true]);
    await claude.open();
    expect((await fleet.untilState("ada", "completed")).id).toBe(adopted.id);
    fleet.model.verify();
  });
});

describe("kill -9 of claude", () => {
  /** What `status` says of a worker whose process is gone, without touching the ledger. */
  async function expectSeenAsGone(fleet: Fleet, name: string): Promise<void> {
    const before = ledgerRows(fleet);
    for (const args of [["status"], ["status", "--json"]]) {
      const { exitCode, stdout } = await fleet.overseer(args);
      expect(exitCode).toBe(0);
      if (args.length > 1) continue;
      expect(stdout).toMatch(new RegExp(`^${name} .*process gone`, "m"));
      expect(stdout).toContain(`\n${name} can go on: overseer resume ${name}\n`);
    }
    expect(ledgerRows(fleet)).toEqual(before);
  }

  const tokens = (fleet: Fleet, name: string) => {
    using ledger = readLedger(fleet);
    const sql = "SELECT token_hash AS token, state FROM sessions WHERE name = ? ORDER BY seq";
    return ledger.query<{ token: string; state: string }, [string]>(sql).all(name);
  };

  test("before its first answer: resume gives it the first prompt again, where it was", async () => {
    await using fleet = await startFleet({
      tell: (model) => model.whenPrompt("You are ada, a builder. Your task").holds("answer").says("Done."),
    });
    await fleet.sling("ada", "Make a thing");
    await fleet.model.untilHeld("answer");
    writeFileSync(join(fleet.worktree("ada"), "half.txt"), "half\n");
    const before = await fleet.session("ada");
    await killClaude(before);
    await expectSeenAsGone(fleet, "ada");
    const answer = await fleet.overseer(["resume", "ada", "--json"]);
    expect(answer.data<{ agents: { name: string }[] }>().agents.map(({ name }) => name)).toEqual(["ada"]);
    fleet.model.release("answer");
    const after = await fleet.untilState("ada", "idle");
    expect(after.id).not.toBe(before.id);
    expect([after.worktree, after.branch, after.taskId]).toEqual([
      before.worktree,
      before.branch,
      before.taskId,
    ]);
    expect(fleet.gitIn("ada", "status", "--porcelain", "--branch")).toBe(`## ${before.branch}\n?? half.txt`);
    const [old, next] = tokens(fleet, "ada");
    expect(old?.state).toBe("zombie");
    expect(next?.token).not.toBe(old?.token ?? "");
    expect(fleet.model.requests.map(({ sessionId }) => sessionId)).toEqual([
      before.claudeSessionId ?? "",
      after.claudeSessionId ?? "",
    ]);
    expect(fleet.model.failures).toEqual([]);
  });

  test("after an answer: resume goes on with the same conversation", async () => {
    await using fleet = await startFleet({
      tell: (model) => {
        const first = model.whenPrompt("You are ada, a builder. Your task");
        first.uses("Bash", { command: "echo half > half.txt" }).says("The number is 4711.");
        model.whenPrompt("You are ada, a builder, and were interrupted").says("Going on.");
      },
    });
    await fleet.sling("ada", "Make a thing");
    const before = await fleet.untilState("ada", "idle");
    await until("the conversation is written down", () =>
      transcriptOf(fleet.home, before.claudeSessionId ?? "").includes("4711"),
    );
    await killClaude(before);
    await expectSeenAsGone(fleet, "ada");
    expect((await fleet.overseer(["resume", "ada"])).exitCode).toBe(0);
    const after = await fleet.untilState("ada", "idle");
    expect(after.id).not.toBe(before.id);
    expect([after.claudeSessionId, after.worktree]).toEqual([before.claudeSessionId, before.worktree]);
    expect(fleet.gitIn("ada", "status", "--porcelain", "--branch")).toBe(`## ${before.branch}\n?? half.txt`);
    const [old, next] = tokens(fleet, "ada");
    expect(old?.state).toBe("zombie");
    expect(next?.token).not.toBe(old?.token ?? "");
    const asked = fleet.model.requests.at(-1)?.body.messages ?? [];
    const said = asked.filter(({ role }) => role === "assistant").flatMap(({ content }) => content);
    expect(said.map(({ text }) => text)).toContain("The number is 4711.");
    fleet.model.verify();
  });

  test("two resumes at once: one goes on, the other is told so", async () => {
    await using fleet = await startFleet();
    await fleet.sling("ada", "Make a thing");
    await killClaude(await fleet.untilState("ada", "idle"));
    const both = [1, 2].map(() => startOverseer(fleet, "resume", "ada", "--json"));
    const answers = await Promise.all(both.map((one) => one.ended()));
    const refused = answers.filter(({ exitCode }) => exitCode !== 0);
    expect(refused.map(({ stdout }) => JSON.parse(stdout).error.code)).toEqual([
      expect.stringMatching(/^(?:changed_meanwhile|still_alive)$/),
    ]);
    await fleet.untilState("ada", "idle");
    expect(panesOf(fleet).length).toBe(1);
    expect(tokens(fleet, "ada").map(({ state }) => state)).toEqual(["zombie", "idle"]);
  });

  test("a resume that is being made is left alone by others", async () => {
    using tools = tempFolder();
    const tmux = gateFor("tmux", tools);
    await using fleet = await startFleet({ config: `tmux: { bin: ${tmux.bin} }\n` });
    await fleet.sling("ada", "Make a thing");
    await killClaude(await fleet.untilState("ada", "idle"));
    tmux.close("new-session");
    const first = startOverseer(fleet, "resume", "ada");
    await tmux.reached();
    const others = [
      startOverseer(fleet, "resume", "ada", "--json"),
      startOverseer(fleet, "resume", "--all", "--json"),
    ];
    const areOver = () => others.every(({ hasEnded }) => hasEnded) || incarnations(fleet) > 2;
    await until("the others are over, or stand there as well", areOver, AT_ONCE);
    await tmux.open();
    const [named, all] = await Promise.all(others.map((other) => other.ended()));
    expect(JSON.parse(named?.stdout ?? "").error).toMatchObject({ code: "still_alive" });
    expect(JSON.parse(all?.stdout ?? "").data).toMatchObject({ agents: [], failed: [] });
    expect((await first.ended()).exitCode).toBe(0);
    expect(incarnations(fleet)).toBe(2);
  });

  const incarnations = (fleet: Fleet) => tokens(fleet, "ada").length;

  test.each(["reserve", "prepare"] as const)(
    "resume does not go on with a sling that was killed at %s",
    async (step) => {
      await using fleet = await startFleet();
      const taskId = await newTask(fleet);
      await killSlingAt(fleet, "ada", taskId, step, 0);
      const { exitCode, stderr, stdout } = await fleet.overseer(["resume"]);
      expect([exitCode, stderr, stdout]).toEqual([0, "", "Nobody has to be resumed.\n"]);
      await expectSettled(fleet, "ada", "queued");
    },
  );

  test("resume leaves alone what a living sling is just making", async () => {
    using tools = tempFolder();
    const git = gateFor("git", tools);
    await using fleet = await startFleet({ config: `git: { bin: ${git.bin} }\n` });
    git.close("worktree add", "after");
    const sling = startOverseer(fleet, ...slingArgs("ada", "Make a thing"));
    await git.reached();
    const resume = await fleet.overseer(["resume", "--json"]);
    await git.open();
    expect(resume.data<{ agents: unknown[]; failed: unknown[] }>()).toMatchObject({ agents: [], failed: [] });
    expect((await sling.ended()).exitCode).toBe(0);
    expect(incarnations(fleet)).toBe(1);
  });

  test("a resume killed before or after its pane is open can be repeated", async () => {
    using tools = tempFolder();
    const tmux = gateFor("tmux", tools);
    await using fleet = await startFleet({ config: `tmux: { bin: ${tmux.bin} }\n` });
    await fleet.sling("ada", "Make a thing");
    const before = await fleet.untilState("ada", "idle");
    writeFileSync(join(fleet.worktree("ada"), "half.txt"), "half\n");
    for (const when of ["before", "after"] as const) {
      await killClaude(await fleet.session("ada"));
      tmux.close("new-session", when);
      const killed = startOverseer(fleet, "resume", "ada");
      await tmux.reached();
      await killed.kill();
      await tmux.open();
      const again = await fleet.overseer(["resume", "ada", "--json"]);
      // Where the claude that it launched lives, that one may go on.
      if (again.exitCode !== 0) expect(again.error().code).toBe("still_alive");
      const after = await fleet.untilState("ada", "idle");
      expect([after.worktree, after.branch]).toEqual([before.worktree, before.branch]);
      expect(fleet.gitIn("ada", "status", "--porcelain")).toBe("?? half.txt");
      expect(panesOf(fleet).map(({ pid }) => pid)).toEqual([after.pid ?? 0]);
    }
    await fleet.overseer(["doctor", "--fix"]);
    await expectNothingToMend(fleet);
  });

  test.each([
    ["resume", ["resume", "ada"]],
    ["doctor --fix", ["doctor", "--fix"]],
  ])("between task close and the end of its turn: %s carries its completion out, once", async (_, remedy) => {
    await using fleet = await startFleet({ tell: ending });
    await fleet.sling("ada", "Make a thing");
    await fleet.model.untilHeld("end");
    await killClaude(await fleet.session("ada"));
    expect((await fleet.session("ada")).state).toBe("working");
    expect((await fleet.overseer(remedy)).exitCode).toBe(0);
    await expectCompletedOnce(fleet);
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    expect((await fleet.overseer(["resume"])).stdout).toBe("Nobody has to be resumed.\n");
    await expectCompletedOnce(fleet);
  });
});

describe("kill -9 of the tmux server", () => {
  const serverOf = (fleet: Fleet) => Number(fleet.tmux("display-message", "-p", "#{pid}"));

  async function expectBothGoOn(fleet: Fleet): Promise<Session[]> {
    const answer = await fleet.overseer(["resume", "--json"]);
    const { agents } = answer.data<{ agents: { name: string }[] }>();
    expect(agents.map(({ name }) => name).toSorted()).toEqual(["ada", "bob"]);
    fleet.model.release("answer");
    const sessions = [await fleet.untilState("ada", "idle"), await fleet.untilState("bob", "idle")];
    const pids = panesOf(fleet).map(({ pid }) => pid);
    expect(pids.toSorted()).toEqual(sessions.map(({ pid }) => pid ?? 0).toSorted());
    expect(fleet.model.failures).toEqual([]);
    await expectNothingToMend(fleet);
    return sessions;
  }

  test("alone or with all that ran in it: two workers go on after resume, and nothing else is left", async () => {
    await using fleet = await startFleet({
      tell: (model) => {
        model.whenPrompt("You are bob, a builder. Your task").holds("answer").says("Done.");
        model.whenPrompt(/./).says("Done.").mayGoOn();
      },
    });
    const started = [
      await fleet.sling("ada", "Make a thing"),
      await fleet.sling("bob", "Make another thing"),
    ];
    await fleet.untilState("ada", "idle");
    await fleet.model.untilHeld("answer");
    killHard(serverOf(fleet));
    await until("both are gone", () => !started.some(({ pid }) => isRunning(pid)), AT_ONCE);
    const sessions = await expectBothGoOn(fleet);

    const server = serverOf(fleet);
    for (const session of sessions) await killClaude(session);
    killHard(server);
    await until("the server is gone", () => !isRunning(server), AT_ONCE);
    const before = ledgerRows(fleet);
    const doctor = await fleet.overseer(["doctor"]);
    expect(doctor.exitCode).toBe(1);
    for (const name of ["ada", "bob"]) expect(doctor.stdout).toContain(`overseer resume ${name}`);
    expect(ledgerRows(fleet)).toEqual(before);
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    const states = [await fleet.session("ada"), await fleet.session("bob")].map(({ state }) => state);
    expect(states).toEqual(["zombie", "zombie"]);
    await expectBothGoOn(fleet);
  });
});

describe("kill -9 of finish", () => {
  /** The process that carries out what ada announced. */
  function finisherOf(fleet: Fleet): number | null {
    using ledger = readLedger(fleet);
    const sql = "SELECT owner FROM actions WHERE kind = 'complete' AND state = 'running'";
    const row = ledger.query<{ owner: string }, []>(sql).get();
    return row && Number(row.owner.split(":")[0]);
  }

  test.each([
    ["git", "rev-list --count", "nothing is recorded yet"],
    ["tmux", "list-panes", "all but the pane is done"],
  ] as const)("at %s %s, where %s: doctor --fix makes it whole, once", async (program, words) => {
    using tools = tempFolder();
    const gate = gateFor(program, tools);
    await using fleet = await startFleet({ config: `${program}: { bin: ${gate.bin} }\n`, tell: ending });
    await fleet.sling("ada", "Make a thing");
    await fleet.model.untilHeld("end");
    gate.close(words);
    fleet.model.release("end");
    await gate.reached();
    const pid = await until("somebody finishes", () => finisherOf(fleet), AT_ONCE);
    killHard(pid);
    await until("it is gone", () => !isRunning(pid), AT_ONCE);
    await gate.open();
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    await expectCompletedOnce(fleet);
  });
});

test("kill -9 of worktree clean --force, anywhere: nothing is lost, and it can be repeated", async () => {
  using tools = tempFolder();
  const git = gateFor("git", tools);
  const claude = tools.write("claude", '#!/bin/sh\n[ "$1" = --version ] || exec sleep 600\n', 0o755);
  await using fleet = await startFleet({
    config: `git: { bin: ${git.bin} }\nclaude: { bin: ${claude} }\n`,
  });
  const moments = [
    ["before", "add --all"],
    ["after", "commit-tree"],
    ["after", "update-ref -m"],
    ["before", "worktree remove"],
    ["after", "worktree remove"],
    ["before", "update-ref -d"],
  ] as const;
  for (const [at, [when, words]] of moments.entries()) {
    const name = `worker-${at}`;
    await fleet.sling(name, "Make a thing", "--no-wait");
    expect((await fleet.overseer(["stop", name])).exitCode).toBe(0);
    leaveWork(fleet, name);
    git.close(words, when);
    const clean = startOverseer(fleet, "worktree", "clean", name, "--force");
    await git.reached();
    await clean.kill();
    await git.open();
    if (existsSync(fleet.worktree(name))) expectWork(fleet, name);
    else expect([words, rescuedFiles(fleet, name)]).toEqual([words, expect.arrayContaining([WHOLE])]);
    const again = await fleet.overseer(["worktree", "clean", name, "--force"]);
    expect([words, again.exitCode, again.stderr]).toEqual([words, 0, ""]);
    expect([words, rescuedFiles(fleet, name)]).toEqual([words, expect.arrayContaining([WHOLE])]);
    const { worktree, taskId } = await fleet.session(name);
    expect([words, worktree, await statusOf(fleet, taskId)]).toEqual([words, null, "queued"]);
  }
  expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
  for (const [at] of moments.entries()) expect(await remainsOf(fleet, `worker-${at}`)).toEqual([]);
});

const WHOLE = "README.md committed.txt untracked.txt";

function leaveWork(fleet: Fleet, name: string): void {
  const file = (path: string) => join(fleet.worktree(name), path);
  writeFileSync(file("committed.txt"), "one\n");
  fleet.gitIn(name, "add", "-A");
  fleet.gitIn(name, "commit", "-qm", "One");
  writeFileSync(file("README.md"), "# changed\n");
  writeFileSync(file("untracked.txt"), "two\n");
}

function expectWork(fleet: Fleet, name: string): void {
  expect(fleet.gitIn(name, "status", "--porcelain")).toBe("M README.md\n?? untracked.txt");
  expect(fleet.gitIn(name, "show", "HEAD:committed.txt")).toBe("one");
}

/** The files of each of its rescue refs that has the changed text as well. */
function rescuedFiles({ repo }: Fleet, name: string): string[] {
  const refs = repo.git("for-each-ref", "--format=%(refname)", `refs/overseer/rescue/${name}`).split("\n");
  const isChanged = (ref: string) => ref !== "" && repo.git("show", `${ref}:README.md`) === "# changed";
  const files = (ref: string) => repo.git("ls-tree", "-r", "--name-only", ref).replaceAll("\n", " ");
  return refs.filter(isChanged).map(files);
}

describe.concurrent("kill -9 of stop", () => {
  test("when the process has ended and its pane is not closed yet: stop again closes it", async () => {
    using tools = tempFolder();
    const tmux = gateFor("tmux", tools);
    await using fleet = await startFleet({ config: `tmux: { bin: ${tmux.bin} }\n` });
    await fleet.sling("ada", "Make a thing");
    const { pid } = await fleet.untilState("ada", "idle");
    tmux.close("list-panes");
    const stop = startOverseer(fleet, "stop", "ada");
    await tmux.reached();
    await stop.kill();
    await tmux.open();
    const again = await fleet.overseer(["stop", "ada"]);
    expect([again.exitCode, again.stderr]).toEqual([0, ""]);
    expect([(await fleet.session("ada")).state, isRunning(pid)]).toEqual(["stopped", false]);
    expect(panesOf(fleet)).toEqual([]);
  });

  test("while it waits for a claude that does not listen: stop again ends it firmly", async () => {
    using tools = tempFolder();
    const asked = join(tools.path, "asked");
    const bin = tools.write(
      "claude",
      `#!/bin/sh\ntrap ': > ${asked}' TERM\nwhile :; do sleep 0.05; done\n`,
      0o755,
    );
    await using fleet = await startFleet({ config: `claude: { bin: ${bin} }\n` });
    const { pid } = await fleet.sling("ada", "Make a thing", "--no-wait");
    await until("it runs", () => processesIn(fleet.worktree("ada")).includes(pid));
    const stop = startOverseer(fleet, "stop", "ada");
    await until("it was asked to end", () => existsSync(asked), AT_ONCE);
    await stop.kill();
    expect(isRunning(pid)).toBe(true);
    const again = await fleet.overseer(["stop", "ada"]);
    expect([again.exitCode, again.stderr]).toEqual([0, ""]);
    expect([(await fleet.session("ada")).state, isRunning(pid)]).toEqual(["stopped", false]);
    expect(panesOf(fleet)).toEqual([]);
    expect(processesIn(fleet.worktree("ada"))).toEqual([]);
  });
});

describe.concurrent("a claude that does not start", () => {
  const program = (tools: TempFolder, body: string) => tools.write("claude", `#!/bin/sh\n${body}\n`, 0o755);

  test("ends at once: sling tells its last words and leaves nothing, and the fourth in a row has to wait", async () => {
    using tools = tempFolder();
    const bin = program(tools, "echo boom, no such luck; exit 3");
    await using fleet = await startFleet({ config: `claude: { bin: ${bin} }\n` });
    const taskId = await newTask(fleet);
    for (const what of [taskId, "Make another thing", taskId]) {
      const { exitCode, stderr } = await fleet.overseer(slingArgs("ada", what));
      expect([exitCode, stderr]).toEqual([1, expect.stringContaining("boom, no such luck")]);
      expect(await remainsOf(fleet, "ada")).toEqual([]);
      const { taskId: given } = await fleet.session("ada");
      expect(await statusOf(fleet, given)).toBe(what === taskId ? "queued" : "cancelled");
    }
    const refused = await fleet.overseer([...slingArgs("bob", taskId), "--json"]);
    expect(refused.exitCode).toBe(75);
    expect(refused.error()).toMatchObject({
      code: "spawn_paused",
      message: expect.stringMatching(/the next may be in \d+s$/),
    });
    expect(await remainsOf(fleet, "bob")).toEqual([]);
  });

  test("never fires a hook: sling gives up in time, ends the process and leaves nothing", async () => {
    using tools = tempFolder();
    const bin = program(tools, "echo waiting for nothing; sleep 600; true");
    await using fleet = await startFleet({
      config: `claude: { bin: ${bin} }\nagents: { bootTimeout: 1s }\n`,
    });
    const { exitCode, stderr } = await fleet.overseer(slingArgs("ada", "Make a thing"));
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("agents.bootTimeout")]);
    expect(stderr).toContain("waiting for nothing");
    expect(await remainsOf(fleet, "ada")).toEqual([]);
  });

  test("asks whether it may trust the folder: sling says what to do and leaves nothing", async () => {
    await using fleet = await startFleet();
    const file = join(fleet.home.path, ".claude.json");
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), projects: {} }));
    const { exitCode, stderr } = await fleet.overseer(slingArgs("ada", "Make a thing"));
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining(`start claude once in ${fleet.root}`)]);
    expect(await remainsOf(fleet, "ada")).toEqual([]);
  });
});
