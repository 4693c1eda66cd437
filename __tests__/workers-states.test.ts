import { expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isAlive, processMark } from "../src/effects/processes.ts";
import { claudeBinary } from "./support/claude.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { screen, type } from "./support/pane.ts";
import { tempFolder } from "./support/temp.ts";
import { until } from "./support/until.ts";

const CLOSE = 'overseer task close "$(basename "$(git branch --show-current)")" --reason';
const PATIENT = { timeoutMs: 30_000 };

interface AgentView {
  name: string;
  state: string;
  reason: string | null;
  cause: string;
  reasonUntil?: string | null;
}

async function statusOf(fleet: Fleet, name: string): Promise<AgentView> {
  const answer = await fleet.overseer(["status", "--json"]);
  const agent = answer.data<{ agents: AgentView[] }>().agents.find((one) => one.name === name);
  if (!agent) throw new Error(`status does not show ${name}: ${answer.stdout}`);
  return agent;
}

async function eventTypes(fleet: Fleet, name: string): Promise<string[]> {
  const answer = await fleet.overseer(["events", "--agent", name, "--json"]);
  const { events } = answer.data<{ events: { type: string; at: string }[] }>();
  expect(events.map(({ at }) => at).toSorted()).toEqual(events.map(({ at }) => at));
  return events.map((event) => event.type);
}

test("a worker is booting, working, idle, working again and completed, each with a cause and a time", async () => {
  using outside = tempFolder();
  const gate = join(outside.path, "start");
  const wait = `#!/bin/sh\nwhile [ ! -e ${gate} ]; do sleep 0.02; done\nexec ${claudeBinary} "$@"\n`;
  await using fleet = await startFleet({
    config: `claude:\n  bin: ${outside.write("claude", wait, 0o755)}\n`,
    tell(model) {
      model.whenPrompt("You are ada").holds("first").says("What next?");
      model
        .whenPrompt("Close it now")
        .uses("Bash", { command: `${CLOSE} "Nothing to do."` })
        .says("Bye.");
    },
  });
  const seen: { state: string; cause: string; at: number }[] = [];
  const see = async (state: string) => {
    const session = await fleet.untilState("ada", state);
    expect(await statusOf(fleet, "ada")).toMatchObject({ state, reason: null, cause: session.cause });
    seen.push({ state, cause: session.cause, at: session.stateAt });
  };
  const slung = await fleet.sling("ada", "Look around here", "--no-wait");
  expect(slung.state).toBe("booting");
  await see("booting");
  writeFileSync(gate, "");
  await fleet.model.untilHeld("first");
  await see("working");
  fleet.model.release("first");
  await see("idle");
  await type(fleet, "ada", "Close it now");
  await see("completed");
  fleet.model.verify();

  expect(seen.map(({ state, cause }) => [state, cause])).toEqual([
    ["booting", "registered"],
    ["working", "session started"],
    ["idle", "turn ended"],
    ["completed", "it closed its task"],
  ]);
  expect(seen.map(({ at }) => at).toSorted()).toEqual(seen.map(({ at }) => at));
  expect(new Set(seen.map(({ at }) => at)).size).toBe(4);
  const types = await eventTypes(fleet, "ada");
  const turns = types.filter((one) => /registered|started|prompted|turn_ended|complet/.test(one));
  expect(turns.filter((one) => one !== "session.tool_started")).toEqual([
    "session.registered",
    "session.started",
    "session.prompted",
    "session.turn_ended",
    "session.prompted",
    "session.completing",
    "session.turn_ended",
    "session.completed",
  ]);
});

test("a worker that asks for permission is waiting until somebody answers in its pane", async () => {
  await using fleet = await startFleet({
    config: "agents:\n  permissionMode: default\n",
    tell: (model) =>
      model
        .whenPrompt("You are ada")
        .uses("Bash", { command: "touch allowed.txt" })
        .holds("after")
        .says("Done."),
  });
  const file = join(fleet.root, ".overseer/agent-manifest.json");
  const manifest = JSON.parse(readFileSync(file, "utf8"));
  manifest.agents.builder.tools = ["Read"];
  writeFileSync(file, JSON.stringify(manifest));
  await fleet.sling("ada", "Touch a file");
  const waiting = await fleet.untilState("ada", "waiting: permission");
  expect(waiting).toMatchObject({ cause: "waiting: permission", toolName: "Bash" });
  // At once, not with the notification that follows some seconds later.
  const [asked] = await fleet.open((project) =>
    project.ledger.listEvents({ type: "session.waiting", limit: 1 }),
  );
  expect(asked).toMatchObject({ agent: "ada", at: waiting.stateAt, data: { tool: "Bash" } });
  expect(await statusOf(fleet, "ada")).toMatchObject({ state: "waiting", reason: "permission" });
  expect((await fleet.overseer(["status"])).stdout).toMatch(/ada +builder +waiting: permission \d+s/);
  const waited = await fleet.overseer(["wait", "ada", "--for", "waiting", "--json"]);
  expect(waited.data<{ agents: AgentView[] }>().agents[0]?.name).toBe("ada");

  await until("the dialog is there", () => /1\. Yes/.test(screen(fleet, waiting.paneId)), PATIENT);
  const peeked = await fleet.overseer(["peek", "ada"]);
  expect(peeked.stdout).toContain("touch allowed.txt");
  fleet.tmux("send-keys", "-t", waiting.paneId ?? "", "Enter");
  await fleet.model.untilHeld("after");
  expect(await statusOf(fleet, "ada")).toMatchObject({ state: "working", reason: null });
  fleet.model.release("after");
  await fleet.untilState("ada", "idle");
  fleet.model.verify();
  expect(fleet.gitIn("ada", "status", "--porcelain")).toBe("?? allowed.txt");
});

test("what the manifest does not allow is denied without a question, and the worker goes on", async () => {
  using outside = tempFolder();
  const file = join(outside.path, "written.txt");
  await using fleet = await startFleet({
    tell: (model) =>
      model
        .whenPrompt("You are sam")
        .uses("Write", { file_path: file, content: "x" })
        .expects(/denied|not allowed|permission/i)
        .says("Then not."),
  });
  await fleet.sling("sam", "Look around here", "--capability", "scout");
  await fleet.untilState("sam", "idle");
  fleet.model.verify();
  expect(existsSync(file)).toBe(false);
  expect(await eventTypes(fleet, "sam")).not.toContain("session.waiting");
});

test("a rate limit is waited out, and the next prompt works again", async () => {
  await using fleet = await startFleet({
    tell(model) {
      model.whenPrompt("You are ada").fails(429, "Number of requests has exceeded your rate limit");
      model.whenPrompt("Try again").says("Better now.");
    },
  });
  await fleet.sling("ada", "Look around here");
  const session = await fleet.untilState("ada", "waiting: rate_limit");
  expect(session).toMatchObject({ cause: "waiting: rate_limit", reasonUntil: null });
  expect(await statusOf(fleet, "ada")).toMatchObject({ state: "waiting", reason: "rate_limit" });
  expect((await fleet.overseer(["status"])).stdout).toMatch(/waiting: rate_limit \d+s/);
  const errors = readFileSync(join(fleet.root, ".overseer/logs", session.logFolder, "errors.log"), "utf8");
  expect(errors).toContain("rate_limit");
  await type(fleet, "ada", "Try again");
  expect(await fleet.untilState("ada", "idle")).toMatchObject({ reason: null, cause: "turn ended" });
  fleet.model.verify();
});

test("the limit of a subscription says until when", async () => {
  // A whole minute: Claude Code's words for it have no seconds.
  const resetsAt = (Math.ceil(Date.now() / 60_000) + 90) * 60;
  await using fleet = await startFleet({
    tell: (model) =>
      model.whenPrompt("You are ada").fails(429, "You have reached your limit", {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": `${resetsAt}`,
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-overage-status": "rejected",
      }),
  });
  const args = ["sling", "Look around here", "--name", "ada", "--capability", "builder", "--json"];
  // No real one: it only makes Claude Code look at what the limits of a subscription say.
  const env = { ANTHROPIC_API_KEY: "", CLAUDE_CODE_OAUTH_TOKEN: "of-nobody", TZ: "Asia/Kolkata" };
  expect((await fleet.overseer(args, { env })).exitCode).toBe(0);
  const session = await fleet.untilState("ada", "waiting: rate_limit");
  fleet.model.verify();
  expect(session.reasonUntil ?? 0).toBeGreaterThanOrEqual(resetsAt * 1000);
  expect(session.reasonUntil ?? 0).toBeLessThanOrEqual((resetsAt + 60) * 1000);
  const reasonUntil = new Date(session.reasonUntil ?? 0).toISOString();
  expect((await fleet.overseer(["status"])).stdout).toContain(`until ${reasonUntil}`);
  expect(await statusOf(fleet, "ada")).toMatchObject({ reason: "rate_limit", reasonUntil });
});

test("a conversation that is too long even after a compaction is waiting, not idle", async () => {
  const tooLong = "prompt is too long: 210000 tokens > 200000 maximum";
  await using fleet = await startFleet({
    tell(model) {
      // However often Claude Code compacts and tries again.
      const story = model.whenPrompt("Go on, please").optional();
      for (let tries = 0; tries < 9; tries++) story.fails(400, tooLong);
      model
        .whenPrompt(/create a detailed summary/i)
        .says("<summary>It began.</summary>")
        .mayGoOn();
      model.whenPrompt("You are ada").says("What next?").mayGoOn();
    },
  });
  await fleet.sling("ada", "Look around here");
  await fleet.untilState("ada", "idle");
  await type(fleet, "ada", "Go on, please");
  const session = await fleet.untilState("ada", "waiting: context_full");
  fleet.model.verify();
  expect(session).toMatchObject({ cause: "waiting: context_full", reasonUntil: null });
  expect(await statusOf(fleet, "ada")).toMatchObject({ state: "waiting", reason: "context_full" });
  expect(await eventTypes(fleet, "ada")).toContain("session.compacted");
  // The summary may have lost it, so the assignment is told again, once.
  const last = fleet.model.requests.at(-1)?.seen ?? "";
  expect(last.split("# overseer\nYou are ada, a builder on branch")).toHaveLength(2);
});

/** The worker's own hook command for an event, as Claude Code runs it. */
async function fire(fleet: Fleet, name: string, event: string, token: string, payload: object) {
  const file = join(fleet.root, ".overseer/agents", name, "settings.json");
  const command = JSON.parse(readFileSync(file, "utf8")).hooks[event][0].hooks[0].command;
  const child = Bun.spawn(["sh", "-c", command], {
    cwd: fleet.worktree(name),
    env: { ...fleet.env, OVERSEER_AGENT_NAME: name, OVERSEER_TOKEN: token, OVERSEER_ROOT: fleet.root },
    stdin: new Blob([JSON.stringify({ hook_event_name: event, ...payload })]),
    stdout: "pipe",
  });
  return { exitCode: await child.exited, stdout: await new Response(child.stdout).text() };
}

test("late hooks and commands of an earlier incarnation touch neither the new one nor its mail", async () => {
  using outside = tempFolder();
  const file = join(outside.path, "token");
  await using fleet = await startFleet({
    tell(model) {
      model.whenPrompt("were interrupted at").holds("resumed").says("Going on.").mayGoOn();
      model
        .whenPrompt("You are ada")
        .uses("Bash", { command: `printf %s "$OVERSEER_TOKEN" > ${file}` })
        .says("Done.");
    },
  });
  const { taskId } = await fleet.sling("ada", "Look around here");
  const first = await fleet.untilState("ada", "idle");
  const old = readFileSync(file, "utf8");
  expect((await fleet.overseer(["stop", "ada"])).exitCode).toBe(0);
  const resumed = await fleet.overseer(["resume", "ada", "--json"]);
  expect(resumed.data<{ agents: AgentView[] }>().agents[0]).toMatchObject({ name: "ada", state: "working" });
  await fleet.model.untilHeld("resumed");
  const letter = ["--subject", "For the new one", "--body", "Only for you.", "--priority", "urgent"];
  await fleet.overseer(["mail", "send", "--to", "ada", ...letter]);

  const before = await fleet.session("ada");
  expect(before.id).not.toBe(first.id);
  expect(before).toMatchObject({ state: "working", claudeSessionId: first.claudeSessionId });
  const tool = { tool_name: "Bash", tool_input: { command: "true" }, tool_response: "", tool_use_id: "t1" };
  for (const session_id of ["ghost", first.claudeSessionId]) {
    const common = { session_id, transcript_path: "/nowhere", cwd: fleet.worktree("ada") };
    for (const [event, more] of [
      ["PreToolUse", tool],
      ["PostToolUse", tool],
      ["Stop", { stop_hook_active: false, last_assistant_message: "ghost" }],
      ["UserPromptSubmit", { prompt: "ghost" }],
      ["SessionEnd", { reason: "other" }],
      ["SessionStart", { source: "startup" }],
    ] as const) {
      const said = await fire(fleet, "ada", event, old, { ...common, ...more });
      expect({ event, ...said }).toEqual({ event, exitCode: 0, stdout: "" });
    }
  }
  expect(await fleet.session("ada")).toEqual(before);
  const all = await fleet.open((project) => project.ledger.pastSessions({ name: "ada" }));
  expect(all.map(({ state }) => state)).toEqual(["working", "stopped"]);
  const unread = ["mail", "list", "--to", "ada", "--unread", "--json"];
  expect((await fleet.overseer(unread)).data<{ messages: unknown[] }>().messages).toHaveLength(1);
  const asOld = { env: { OVERSEER_TOKEN: old, OVERSEER_AGENT_NAME: "ada" } };
  for (const args of [
    ["mail", "check"],
    ["mail", "send", "--to", "human", "--subject", "x", "--body", "y"],
    ["task", "close", taskId, "--reason", "ghost"],
    ["finish", "ada"],
    ["sling", "Something new", "--name", "eve", "--capability", "builder"],
  ]) {
    const refused = await fleet.overseer([...args, "--json"], asOld);
    expect({ args, code: refused.error().code }).toEqual({ args, code: "not_you" });
  }
  expect(await fleet.session("ada")).toEqual(before);
  fleet.model.release("resumed");
  await fleet.untilState("ada", "idle");
  // What the ghosts were not shown has reached the one it was for.
  const told = () => fleet.model.requests.some(({ seen }) => seen.includes("Only for you."));
  await until("the new incarnation was told", told, PATIENT);
  fleet.model.verify();
  expect(await isAlive(before.mark ?? "")).toBe(true);
});

/** In the background of a worker, in ways that outlive a shell; each writes down its pid. */
function background(pids: string): { command: string; run_in_background: boolean } {
  const command = `setsid sleep 1001 & echo $! >> ${pids}; nohup sleep 1002 > /dev/null 2>&1 & echo $! >> ${pids}; echo $$ >> ${pids}; sleep 1003`;
  return { command, run_in_background: true };
}

async function marksOf(pids: string): Promise<string[]> {
  const started = await until("three processes run", () => {
    const found = existsSync(pids) ? readFileSync(pids, "utf8").trim().split("\n") : [];
    return found.length === 3 && found.map(Number);
  });
  const marks = await Promise.all(started.map(processMark));
  return marks.map((mark) => mark ?? "gone too early");
}

async function living(marks: readonly string[]): Promise<string[]> {
  const areAlive = await Promise.all(marks.map(isAlive));
  return marks.filter((_, at) => areAlive[at]);
}

test("a stopped worker ends with all that it started, and nothing else ends with it", async () => {
  using outside = tempFolder();
  const pids = join(outside.path, "pids");
  await using fleet = await startFleet({
    tell: (model) =>
      model
        .whenPrompt("You are ada")
        .uses("Bash", background(pids))
        .uses("Bash", { command: "echo kept > kept.txt" })
        .says("Done."),
  });
  await using bystander = child(["sleep", "1004"]);
  const { taskId, branch } = await fleet.sling("ada", "Start something long");
  const session = await fleet.untilState("ada", "idle");
  fleet.model.verify();
  const marks = [session.mark ?? "", ...(await marksOf(pids))];
  expect(await living(marks)).toEqual(marks);

  const answer = await fleet.overseer(["stop", "ada"]);
  expect(answer.stdout).toContain("Stopped ada; worktrees and branches stay.");
  expect(await living(marks)).toEqual([]);
  expect(bystander.process.exitCode).toBeNull();
  expect(fleet.panes()).toEqual([]);
  // Politely: Claude Code had the time to say so itself.
  const log = readFileSync(join(fleet.root, ".overseer/logs", session.logFolder, "session.log"), "utf8");
  expect(log).toMatch(/ ended reason="/);
  expect(await fleet.session("ada")).toMatchObject({ state: "stopped", cause: "stopped by human" });
  expect(readFileSync(join(fleet.worktree("ada"), "kept.txt"), "utf8")).toBe("kept\n");
  expect(fleet.gitIn("ada", "branch", "--show-current")).toBe(branch);
  const show = await fleet.overseer(["task", "show", taskId, "--json"]);
  expect(show.data<{ task: { status: string } }>().task.status).toBe("in_progress");
  const again = await fleet.overseer(["stop", "ada", "--json"]);
  expect(again.exitCode).toBe(1);
  expect(again.error()).toMatchObject({ code: "ended_otherwise" });
  expect(again.error().hint).toBe("overseer resume ada lets it go on; overseer diff ada shows what it did");
});

function child(argv: string[]) {
  const process = Bun.spawn(argv, { stdin: "ignore", stdout: "ignore", stderr: "ignore" });
  return {
    process,
    async [Symbol.asyncDispose]() {
      process.kill("SIGKILL");
      await process.exited;
    },
  };
}

test("a worker that does not listen is ended all the same, with what it started", async () => {
  using outside = tempFolder();
  const pids = join(outside.path, "pids");
  const deaf = `#!/bin/sh\ntrap "" TERM\n${claudeBinary} "$@"\nexit $?\n`;
  await using fleet = await startFleet({
    config: `claude:\n  bin: ${outside.write("claude", deaf, 0o755)}\n`,
    tell: (model) => model.whenPrompt("You are ada").uses("Bash", background(pids)).says("Done."),
  });
  await fleet.sling("ada", "Look around here");
  const session = await fleet.untilState("ada", "idle");
  const marks = [session.mark ?? "", ...(await marksOf(pids))];
  expect(await living(marks)).toEqual(marks);
  expect((await fleet.overseer(["stop", "ada"])).exitCode).toBe(0);
  expect(await living(marks)).toEqual([]);
  expect(fleet.panes()).toEqual([]);
  expect((await fleet.session("ada")).state).toBe("stopped");
});
