import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  type ClaudeHome,
  type ClaudeOptions,
  claudeHome,
  runClaude,
  startClaude,
  transcriptOf,
} from "./support/claude.ts";
import { type Model, startModel } from "./support/model-server.ts";
import {
  mailIdsIn,
  overseerBin,
  type TestProject,
  testProject,
  untilHandedOver,
  type Worker,
} from "./support/project.ts";
import { until } from "./support/until.ts";

interface Office extends AsyncDisposable {
  at: TestProject;
  home: ClaudeHome;
  ada: Worker;
}

async function office(): Promise<Office> {
  const at = await testProject();
  const home = claudeHome(join(at.scratch, "claude"), { trusted: [at.root] });
  const ada = await at.worker("ada");
  return { at, home, ada, [Symbol.asyncDispose]: () => at[Symbol.asyncDispose]() };
}

/** As `sling` starts it: by its own settings file, in the worker's environment. */
function asWorker({ at, home, ada }: Office, model: Model, prompt: string, ...args: string[]): ClaudeOptions {
  const settings = ["--settings", at.workerSettings(ada)];
  return { home, model, prompt, cwd: at.root, env: ada.env, args: [...settings, ...args] };
}

/** As the person starts it: the hooks come from the repository's own settings. */
function asOrchestrator(
  { at, home }: Office,
  model: Model,
  prompt: string,
  ...args: string[]
): ClaudeOptions {
  return { home, model, prompt, cwd: at.root, args: ["--allowedTools", "Bash", "Agent", ...args] };
}

const ROLES = [
  ["ada", asWorker, "You are ada, a builder."],
  ["orchestrator", asOrchestrator, "# overseer\nYou are the orchestrator of this repository"],
] as const;

const states = (at: TestProject) => at.mailRows().map(({ state }) => state);
const overseer = (...args: string[]) => [overseerBin, ...args].map((arg) => `'${arg}'`).join(" ");

test.each(ROLES)("the first request of %s has who it is and its mail, once", async (name, start, who) => {
  await using here = await office();
  const { at } = here;
  await at.send({ to: [name], body: "lunch at noon" });
  await using model = startModel((story) => {
    story
      .whenPrompt("begin")
      .expects(who, { times: 1 })
      .expects("lunch at noon\n</overseer-mail>", { times: 1 })
      .holds("thinking")
      .says("begun");
  });
  const claude = startClaude(start(here, model, "begin"));
  await model.untilHeld("thinking");
  expect(states(at)).toEqual(["claimed"]);
  expect(at.mailRows()[0]?.claimedBy).toStartWith(`${claude.pid}:`);
  expect((await at.session(name)).state).toBe("working");
  model.release("thinking");
  expect((await claude.exited).stdout).toBe("begun\n");
  expect(states(at)).toEqual(["read"]);
  expect((await at.session(name)).state).toBe("stopped");
  expect(at.log("errors.log")).toEqual([]);
  model.verify();
});

test.each(ROLES)(
  "urgent mail sent while %s thinks is in the request after its next tool use",
  async (name, start) => {
    await using here = await office();
    const { at } = here;
    await using model = startModel((story) => {
      story
        .whenPrompt("work")
        .holds("thinking")
        .uses("Bash", { command: "true" })
        .expects("stop that!\n</overseer-mail>", { times: 1 })
        .uses("Bash", { command: "false" })
        .expects("stop that!\n</overseer-mail>", { times: 1 })
        .expectsNot("slowly")
        .says("stopped");
      story.whenPrompt("slowly").says("slowed");
    });
    const claude = startClaude(start(here, model, "work"));
    await model.untilHeld("thinking");
    await at.send({ to: [name], from: "dora", body: "slowly", priority: "normal" });
    await at.send({ to: [name], body: "stop that!", priority: "urgent" });
    model.release("thinking");
    expect((await claude.exited).stdout).toBe("slowed\n");
    expect(states(at)).toEqual(["read", "read"]);
    model.verify();
  },
);

test("mail after a failed tool use and mail to oneself arrive like any other", async () => {
  await using here = await office();
  const send = overseer(
    "mail",
    "send",
    "--to",
    "orchestrator",
    "--subject",
    "note",
    "--priority",
    "high",
    "--body",
    "mind the gap",
  );
  await using model = startModel((story) => {
    story
      .whenPrompt("work")
      .uses("Bash", { command: `${send}; exit 3` })
      .expects('<overseer-mail from="orchestrator"', { times: 1 })
      .expects("mind the gap\n</overseer-mail>", { times: 1 })
      .says("minded");
  });
  expect((await runClaude(asOrchestrator(here, model, "work"))).stdout).toBe("minded\n");
  expect(states(here.at)).toEqual(["read"]);
  model.verify();
});

test("normal mail sent during a turn is shown when the turn ends, and the ledger follows", async () => {
  await using here = await office();
  const { at } = here;
  const send = overseer("mail", "send", "--to", "ada", "--subject", "lunch", "--body", "at noon");
  await using model = startModel((story) => {
    story
      .whenPrompt("work")
      .uses("Bash", { command: `${send}; until [ -e go ]; do sleep 0.02; done` })
      .expectsNot("at noon\n</overseer-mail>")
      .says("finished");
    story.whenPrompt("at noon\n</overseer-mail>").holds("reading").says("noted");
  });
  const claude = startClaude(asWorker(here, model, "work"));
  await until("the tool runs", () => states(at).length === 1);
  expect(await at.session("ada")).toMatchObject({ state: "working", toolName: "Bash", toolsInFlight: 1 });
  at.repo.write("go", "");
  await model.untilHeld("reading");
  expect(await at.session("ada")).toMatchObject({ state: "working", toolName: null, toolsInFlight: 0 });
  expect(states(at)).toEqual(["claimed"]);
  model.release("reading");
  expect((await claude.exited).stdout).toBe("noted\n");
  expect(states(at)).toEqual(["read"]);
  const types = (await at.project.ledger.listEvents({ agent: "ada", type: "session", limit: 20 })).map(
    ({ type }) => type.slice("session.".length),
  );
  expect(types.join(" ")).toBe(
    "registered started prompted tool_started tool_finished turn_ended prompted turn_ended ended",
  );
  model.verify();
});

test("a subagent is shown nothing; its parent gets the mail after the subagent's tool", async () => {
  await using here = await office();
  const { at } = here;
  await using model = startModel((story) => {
    story
      .whenPrompt("ask around")
      .usesAgent("count the sheep")
      .expects("hurry\n</overseer-mail>", { times: 1 })
      .says("there are 42");
    story
      .whenPrompt("count the sheep")
      .holds("counting")
      .uses("Bash", { command: "echo 42" })
      .expectsNot("overseer-mail")
      .says("42 sheep");
  });
  const claude = startClaude(asWorker(here, model, "ask around"));
  await model.untilHeld("counting");
  await at.send({ to: ["ada"], body: "hurry", priority: "urgent" });
  model.release("counting");
  expect((await claude.exited).stdout).toBe("there are 42\n");
  expect(states(at)).toEqual(["read"]);
  model.verify();
});

test("mail printed right before a SIGKILL is shown to the fresh run that follows", async () => {
  await using here = await office();
  const { at } = here;
  await at.send({ to: ["ada"], body: "lunch at noon" });
  await using model = startModel((story) => {
    story.whenPrompt("begin").holds("thinking").says("never heard").optional();
    story.whenPrompt("once more").expects("lunch at noon\n</overseer-mail>", { times: 1 }).says("noted");
  });
  const killed = startClaude(asWorker(here, model, "begin"));
  await untilHandedOver(at, killed.pid);
  killed.kill("SIGKILL");
  await killed.exited;
  expect(states(at)).toEqual(["claimed"]);
  expect((await runClaude(asWorker(here, model, "once more"))).stdout).toBe("noted\n");
  expect(states(at)).toEqual(["read"]);
  model.verify();
});

test("mail printed after a tool use, right before a SIGKILL, is shown to the resumed run", async () => {
  await using here = await office();
  const { at, home } = here;
  await using model = startModel((story) => {
    story
      .whenPrompt("work")
      .uses("Bash", { command: "true" })
      .holds("second")
      .uses("Bash", { command: "true" })
      .holds("third")
      .says("never heard")
      .optional();
    story.whenPrompt("go on").expects("stop that!\n</overseer-mail>").says("stopped");
  });
  const id = crypto.randomUUID();
  const killed = startClaude(asWorker(here, model, "work", "--session-id", id));
  await model.untilHeld("second");
  await until("there is something to resume", () => transcriptOf(home, id).includes('"tool_result"'));
  await at.send({ to: ["ada"], body: "stop that!", priority: "urgent" });
  model.release("second");
  await untilHandedOver(at, killed.pid);
  killed.kill("SIGKILL");
  await killed.exited;
  expect(states(at)).toEqual(["claimed"]);
  expect((await runClaude(asWorker(here, model, "go on", "--resume", id))).stdout).toBe("stopped\n");
  expect(states(at)).toEqual(["read"]);
  model.verify();
});

// The second call's PreToolUse acknowledges before any model has seen the mail, and the transcript lags behind.
test("mail printed between two tool calls of one answer survives a SIGKILL as well", async () => {
  await using here = await office();
  const { at } = here;
  const send = overseer(
    "mail",
    "send",
    "--to",
    "ada",
    "--subject",
    "x",
    "--priority",
    "urgent",
    "--body",
    "stop that!",
  );
  await using model = startModel((story) => {
    story
      .whenPrompt("do both")
      .uses("Bash", { command: send })
      .and("Bash", { command: "touch begun; until [ -e go ]; do sleep 0.02; done" })
      .says("never heard")
      .optional();
    story.whenPrompt("go on").expects("stop that!\n</overseer-mail>").says("stopped");
  });
  const id = crypto.randomUUID();
  const killed = startClaude(asWorker(here, model, "do both", "--session-id", id));
  await until("the second call runs", () => existsSync(join(at.root, "begun")), { everyMs: 1 });
  killed.kill("SIGKILL");
  await killed.exited;
  at.repo.write("go", "");
  await runClaude(asWorker(here, model, "go on", "--resume", id));
  model.verify();
});

test("forty long messages arrive whole, once and in order, over as many injections as it takes", async () => {
  await using here = await office();
  const { at, ada } = here;
  const sent: { id: string; body: string }[] = [];
  for (let n = 0; n < 40; n++) {
    const body = `message ${n} begins ${"x".repeat(3_000 + 75 * n)} and ends`;
    for (const { id } of await at.send({ to: ["ada"], body, priority: n % 4 === 3 ? "high" : "normal" })) {
      sent.push({ id, body });
    }
  }
  await using model = startModel((story) => {
    story
      .whenPrompt(/^(begin|go on)$/)
      .uses("Bash", { command: "true" })
      .mayGoOn("read");
    story.whenPrompt("overseer-mail").mayGoOn("read").optional();
  });
  const id = crypto.randomUUID();
  await runClaude(asWorker(here, model, "begin", "--session-id", id));
  // Claude Code lets a Stop hook block only so often in a row.
  for (let n = 0; n < 6 && states(at).includes("unread"); n++) {
    await runClaude(asWorker(here, model, "go on", "--resume", id));
  }
  expect(states(at)).toEqual(sent.map(() => "read"));

  const seen = new Set<string>();
  for (const request of model.requests) for (const found of mailIdsIn(request.seen)) seen.add(found);
  expect([...seen]).toEqual(sent.map((message) => message.id));
  const last = model.requests.at(-1)?.seen ?? "";
  for (const { body } of sent) expect(last).toContain(`>\n${body}\n</overseer-mail>`);

  const told = at.log("journal.ndjson").map((line) => JSON.parse(line));
  const idsOf = (type: string): string[] =>
    told.filter((one) => one.type === type).flatMap(({ data }) => data.ids);
  const released = idsOf("mail.released");
  expect(idsOf("mail.read")).toEqual(sent.map((message) => message.id));
  expect(idsOf("mail.delivered")).toHaveLength(sent.length + released.length);
  expect(at.log(`${ada.session.logFolder}/session.log`).length).toBeGreaterThan(20);
  expect(model.failures).toEqual([]);
});

test("in a worker's worktree the orchestrator's hooks are silent", async () => {
  await using here = await office();
  const { at, home, ada } = here;
  const worktree = join(at.paths.worktrees, "ada");
  at.repo.git("worktree", "add", "--quiet", "--no-track", "-b", "overseer/ada/t-1", worktree);
  await at.send({ to: ["orchestrator"], body: "for the orchestrator", priority: "urgent" });
  await at.send({ to: ["ada"], body: "for ada", priority: "urgent" });
  await using model = startModel((story) => {
    story
      .whenPrompt("work")
      .expects("You are ada, a builder.", { times: 1 })
      .expects("for ada\n</overseer-mail>", { times: 1 })
      .uses("Bash", { command: "pwd > where" })
      .expects("for ada\n</overseer-mail>", { times: 1 })
      .expectsNot("for the orchestrator")
      .says("done");
    story
      .whenPrompt("who am I")
      .expects("for the orchestrator\n</overseer-mail>", { times: 1 })
      .says("the boss");
  });
  const options = { ...asWorker(here, model, "work"), cwd: worktree };
  expect((await runClaude(options)).stdout).toBe("done\n");
  expect(await Bun.file(join(worktree, "where")).text()).toBe(`${worktree}\n`);
  expect(existsSync(join(worktree, ".claude"))).toBe(false);
  expect(await at.project.ledger.currentSession("orchestrator")).toBeNull();
  expect(states(at)).toEqual(["unread", "read"]);
  expect(ada.env.OVERSEER_ROOT).toBe(at.root);

  // It is the environment that silences them: without it, the same hooks do speak in the same folder.
  expect((await runClaude({ home, model, prompt: "who am I", cwd: worktree })).stdout).toBe("the boss\n");
  model.verify();
});
