import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isAlive } from "../src/effects/processes.ts";
import { cleanEnvironment, OVERSEER } from "./support/cli.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import type { Model } from "./support/model-server.ts";
import { type TempFolder, tempFolder } from "./support/temp.ts";
import { until } from "./support/until.ts";

const CLOSE = 'overseer task close "$(basename "$(git branch --show-current)")" --reason';
const PATIENT = { timeoutMs: 60_000, everyMs: 50 };

interface Spoken {
  ok: boolean;
  data?: { agent: { name: string; parent: string; depth: number; state: string } };
  error?: { code: string; message: string; hint: string };
}

/** Commands that a worker tries one after the other; `said(name)` is what each answered. */
function attempts(folder: TempFolder, who: string, commands: Record<string, string>) {
  const file = (name: string) => join(folder.path, `${who}-${name}.json`);
  const lines = Object.entries(commands).map(
    ([name, command]) => `overseer ${command} --json > ${file(name)} 2> ${file(name)}.err`,
  );
  // A script, so that the model's command is one that a guard does not look into.
  const command = `sh ${folder.write(`${who}.sh`, `${lines.join("\n")}\ntrue\n`)}`;
  return { command, said: (name: string): Spoken => JSON.parse(readFileSync(file(name), "utf8")) };
}

function sling(name: string, role: string, ...more: string[]): string {
  return `sling "Do what ${name} does" --name ${name} --capability ${role} ${more.join(" ")}`;
}

function refusals(said: (name: string) => Spoken, names: readonly string[]) {
  return Object.fromEntries(names.map((name) => [name, said(name).error?.code]));
}

async function names(fleet: Fleet): Promise<string[]> {
  const answer = await fleet.overseer(["status", "--json"]);
  const { agents } = answer.data<{ agents: { name: string }[] }>();
  return agents.map(({ name }) => name).toSorted();
}

test("a lead slings workers of its own, within its files, and gets their results", async () => {
  using folder = tempFolder();
  const lead = attempts(folder, "lee", {
    kid: sling("kid", "builder", "--files src/a"),
    outside: sling("out", "builder", "--files docs"),
    around: sling("out", "builder", "--files 's*'"),
    without: sling("out", "builder"),
    overlapping: sling("out", "builder", "--files src/a/deep.ts"),
    parent: sling("out", "builder", "--files src/b --parent orchestrator"),
    other: sling("out", "builder", "--files src/b --parent eve"),
    depth: sling("out", "builder", "--files src/b --depth 0"),
    stop: "stop eve",
    resume: "resume eve",
    diff: "diff eve",
    logs: "logs eve",
    peek: "peek eve",
    reader: sling("sue", "scout"),
  });
  const kid = attempts(folder, "kid", {
    sling: sling("toy", "builder", "--files src/a/toy"),
    stop: "stop lee",
    peek: "peek lee",
    self: "inspect kid",
    all: "stop --all",
    clean: "worktree clean lee --force",
  });
  await using fleet = await startFleet({
    tell(model) {
      model
        .whenPrompt("You are lee")
        .expects("## Your workers", { times: 1 })
        .uses("Bash", { command: lead.command })
        .holds("lead")
        .uses("Bash", { command: "overseer mail wait --timeout 60s" })
        .expects(/kid has finished t-\w+/)
        .expects("Made the toy.")
        .says("Thank you.");
      model
        .whenPrompt("You are kid")
        .expectsNot("## Your workers")
        .expects("you work for lee, your parent")
        .uses("Bash", { command: kid.command })
        .uses("Bash", {
          command: `mkdir -p src/a && echo toy > src/a/toy && git add -A && git commit -qm toy && ${CLOSE} "Made the toy."`,
        })
        .says("Bye.");
      quiet(model, "You are eve", "You are sue");
    },
  });
  await fleet.sling("eve", "Look after the documents", "--files", "docs");
  await fleet.sling("lee", "Build everything there is", "--capability", "lead", "--files", "src");
  await fleet.model.untilHeld("lead");
  const { said } = lead;
  expect(said("kid").data?.agent).toMatchObject({ name: "kid", parent: "lee", depth: 1, state: "working" });
  expect(said("reader").data?.agent).toMatchObject({ name: "sue", parent: "lee", depth: 1 });
  expect(refusals(said, ["outside", "around", "without", "overlapping", "parent", "other", "depth"])).toEqual(
    {
      outside: "scope_outside",
      around: "scope_outside",
      without: "scope_outside",
      overlapping: "scope_taken",
      parent: "not_you",
      other: "not_you",
      depth: "usage",
    },
  );
  expect(said("overlapping").error?.message).toContain("kid's");
  expect(refusals(said, ["stop", "resume"])).toEqual({ stop: "not_you", resume: "not_you" });
  expect(said("stop").error?.message).toBe("eve does not work for lee");
  // To look at others is everybody's right: a reviewer has to.
  for (const looking of ["diff", "logs", "peek"]) expect(said(looking).ok).toBe(true);

  await fleet.untilState("kid", "completed");
  expect(refusals(kid.said, ["sling", "stop", "clean"])).toEqual({
    sling: "may_not_spawn",
    stop: "not_you",
    clean: "not_you",
  });
  for (const looking of ["peek", "self"]) expect(kid.said(looking).ok).toBe(true);
  // Everybody of its own, and that is nobody.
  expect(kid.said("all")).toMatchObject({ ok: true, data: { stopped: [] } });
  fleet.model.release("lead");
  await fleet.untilState("lee", "idle");
  await fleet.untilState("sue", "idle");
  fleet.model.verify();
  expect(await names(fleet)).toEqual(["eve", "kid", "lee", "sue"]);
  const status = (await fleet.overseer(["status"])).stdout;
  expect(status).toMatch(/\nlee +lead .*\n {2}(?:kid|sue) .*\n {2}(?:kid|sue) /);
  const kidMail = await fleet.overseer(["mail", "list", "--from", "kid", "--json"]);
  const { messages } = kidMail.data<{ messages: { to: string; type: string; read: boolean }[] }>();
  expect(messages).toEqual([expect.objectContaining({ to: "lee", type: "result", read: true })]);
});

function quiet(model: Model, ...prompts: string[]): void {
  for (const prompt of prompts) model.whenPrompt(prompt).says("Done.");
}

test("a lead at the last level slings nobody", async () => {
  using folder = tempFolder();
  const task = `"$(overseer prime | sed -n 's/^## Your task: //p')"`;
  const lead = attempts(folder, "lee", {
    sub: sling("sub", "lead"),
    close: `task close ${task} --reason early`,
  });
  const sub = attempts(folder, "sub", {
    deep: sling("toy", "builder"),
    claimed: sling("toy", "builder", "--depth 1"),
    above: sling("toy", "builder", "--parent lee"),
  });
  await using fleet = await startFleet({
    tell(model) {
      model.whenPrompt("You are lee").uses("Bash", { command: lead.command }).says("Done.");
      model.whenPrompt("You are sub").uses("Bash", { command: sub.command }).says("Done.");
    },
  });
  await fleet.sling("lee", "Build everything there is", "--capability", "lead");
  await fleet.untilState("lee", "idle");
  await fleet.untilState("sub", "idle");
  fleet.model.verify();
  expect(lead.said("sub").data?.agent).toMatchObject({ parent: "lee", depth: 1 });
  // Whose result would otherwise reach nobody.
  expect(lead.said("close").error).toMatchObject({ code: "workers_present" });
  expect(lead.said("close").error?.message).toContain("sub");
  expect(refusals(sub.said, ["deep", "claimed", "above"])).toEqual({
    deep: "too_deep",
    claimed: "usage",
    above: "not_you",
  });
  expect(sub.said("deep").error?.message).toContain("level 3 of at most 2");
  // A person is held to the same.
  const below = ["sling", "Do it there", "--name", "toy", "--capability", "builder", "--json"];
  expect((await fleet.overseer([...below, "--parent", "sub"])).error().code).toBe("too_deep");
  expect((await fleet.overseer([...below, "--parent", "nobody"])).error().code).toBe("agent_unknown");
  expect(await names(fleet)).toEqual(["lee", "sub"]);
  expect(fleet.repo.git("branch", "--list", "overseer/toy/*")).toBe("");

  // Stopping a lead leaves those below it alone; everybody at once is another command.
  expect((await fleet.overseer(["stop", "lee"])).exitCode).toBe(0);
  expect((await fleet.session("sub")).state).toBe("idle");
  const all = await fleet.overseer(["stop", "--all", "--json"]);
  expect(all.data<{ stopped: string[] }>().stopped).toEqual(["sub"]);
  expect(fleet.panes()).toEqual([]);
});

test("wait returns for the first, for all, too late, and as soon as it is in vain", async () => {
  await using fleet = await startFleet({
    tell(model) {
      model.whenPrompt("You are ada").holds("ada").says("Done.");
      quiet(model, "You are bob");
    },
  });
  const nobody = await fleet.overseer(["wait", "--json"]);
  expect({ exitCode: nobody.exitCode, code: nobody.error().code }).toEqual({
    exitCode: 75,
    code: "nothing_yet",
  });
  await fleet.sling("ada", "Look around here");
  await fleet.sling("bob", "Look around there");
  const wait = (...args: string[]) => fleet.overseer(["wait", ...args, "--json"]);
  const reached = async (answer: ReturnType<typeof wait>) => {
    const { agents } = (await answer).data<{ agents: { name: string }[] }>();
    return agents.map(({ name }) => name).toSorted();
  };
  expect(await reached(wait("--any", "--for", "idle"))).toEqual(["bob"]);
  expect(await reached(wait("ada", "bob", "--any", "--for", "idle"))).toEqual(["bob"]);
  const late = await wait("ada", "bob", "--for", "idle", "--timeout", "300ms");
  expect(late.exitCode).toBe(75);
  expect(late.error().message).toContain("ada is working");
  const all = wait("--for", "idle");
  fleet.model.release("ada");
  expect(await reached(all)).toEqual(["ada", "bob"]);
  expect((await wait("eve")).error().code).toBe("agent_unknown");

  const waiting = wait("ada", "--timeout", "60s");
  const anybody = wait("ada", "bob", "--any", "--timeout", "60s");
  await fleet.overseer(["stop", "ada"]);
  const inVain = await waiting;
  expect(inVain.exitCode).toBe(1);
  expect(inVain.error()).toMatchObject({ code: "ended_otherwise" });
  expect(inVain.error().message).toMatch(/^ada is stopped \(.+\), and will not become completed$/);
  // The other one may still get there; killed, and unseen by any hook, it will not.
  const bob = await fleet.session("bob");
  process.kill(bob.pid ?? 0, "SIGKILL");
  const nobodyLeft = await anybody;
  expect(nobodyLeft.exitCode).toBe(1);
  expect(await isAlive(bob.mark ?? "")).toBe(false);
});

/** The program on a terminal of its own, as long as the block lasts. */
function terminal(fleet: Fleet, args: string[]) {
  let seen = "";
  const decoder = new TextDecoder();
  const child = Bun.spawn([OVERSEER, ...args], {
    cwd: fleet.root,
    env: cleanEnvironment({ ...fleet.env, TERM: "xterm-256color" }),
    terminal: {
      cols: 160,
      rows: 40,
      data(_, bytes) {
        seen += decoder.decode(bytes, { stream: true });
      },
    },
  });
  return {
    child,
    seen: () => seen,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}

test("what a worker does can be followed: diff, logs, peek, inspect, attach and status", async () => {
  const work =
    "mkdir -p src && echo committed > src/a.txt && git add -A && git commit -qm a && echo changed >> README.md && echo new > 'new file.txt'";
  await using fleet = await startFleet({
    tell: (model) =>
      model.whenPrompt("You are ada").uses("Bash", { command: work }).holds("more").says("Written."),
  });
  const { pid, taskId } = await fleet.sling("ada", "Write three files");
  await fleet.model.untilHeld("more");
  const status = fleet.gitIn("ada", "status", "--porcelain");
  const diff = (await fleet.overseer(["diff", "ada", "--json"])).data<{ files: string[]; diff: string }>();
  expect(diff.files.toSorted()).toEqual(["README.md", "new file.txt", "src/a.txt"]);
  for (const line of ["+committed", "+changed", "+new"]) expect(`${diff.diff}\n`).toContain(`\n${line}\n`);
  expect((await fleet.overseer(["diff", "ada", "--stat"])).stdout).toMatch(/src\/a\.txt +\| 1 \+/);
  // As a patch: git takes it where the work is not.
  const patch = fleet.repo.write(".overseer/ada.patch", (await fleet.overseer(["diff", "ada"])).stdout);
  expect(fleet.repo.git("apply", "--numstat", patch).split("\n")).toHaveLength(3);
  fleet.repo.git("apply", "--check", patch);
  expect(fleet.gitIn("ada", "status", "--porcelain")).toBe(status);

  const follow = ["logs", "ada", "--follow"];
  await using following = piped(fleet, follow);
  await using watching = piped(fleet, ["status", "--watch", "--json"]);
  await using screen = terminal(fleet, ["status", "--watch"]);
  await using attached = terminal(fleet, ["attach", "ada"]);
  await until("the log so far is shown", () => following.seen().includes("tool_finished Bash"), PATIENT);
  expect(following.seen()).not.toContain("turn_ended");
  await until("the pane is shown", () => attached.seen().includes("You are ada, a builder."), PATIENT);
  await until("the status is shown", () => /ada.*builder.*working/.test(screen.seen()), PATIENT);
  fleet.model.release("more");
  await fleet.untilState("ada", "idle");
  await until("the end of the turn follows", () => following.seen().includes('message="Written."'), PATIENT);
  await until("the screen follows", () => /ada.*builder.*idle/.test(screen.seen()), PATIENT);
  await until("the pane follows", () => attached.seen().includes("Written."), PATIENT);
  const states = () =>
    watching
      .seen()
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line).agents[0].state);
  await until("the lines follow", () => states().includes("idle"), PATIENT);
  expect(states()[0]).toBe("working");

  attached.child.terminal?.write("\x02d");
  expect(await attached.child.exited).toBe(0);
  expect((await fleet.session("ada")).state).toBe("idle");
  expect(fleet.panes()).toEqual([expect.objectContaining({ session: "overseer-ada", pid, isDead: false })]);

  const logs = (await fleet.overseer(["logs", "ada", "--lines", "2"])).stdout.trim().split("\n");
  expect(logs).toHaveLength(2);
  expect(logs[1]).toEndWith('turn_ended message="Written."');
  expect((await fleet.overseer(["peek", "ada"])).stdout).toContain("Written.");
  const inspected = await fleet.overseer(["inspect", "ada"]);
  for (const part of [
    `idle for`,
    `${taskId} in_progress: Write three files`,
    `${pid} runs`,
    "1 ahead, 0 behind",
  ]) {
    expect(inspected.stdout).toContain(part);
  }
  expect(inspected.stdout).toContain("uncommitted: README.md, new file.txt");
  const nowhere = await fleet.overseer(["attach", "ada"]);
  expect(nowhere.exitCode).toBe(64);
  expect(nowhere.stderr).toContain("overseer peek ada");

  await fleet.overseer(["stop", "ada"]);
  expect((await fleet.overseer(["peek", "ada", "--json"])).error().code).toBe("pane_missing");
  expect((await fleet.overseer(["diff", "ada", "--json"])).data<typeof diff>().files).toEqual(diff.files);
});

/** The program with its output in a pipe, as long as the block lasts. */
function piped(fleet: Fleet, args: string[]) {
  let seen = "";
  const child = Bun.spawn([OVERSEER, ...args], {
    cwd: fleet.root,
    env: cleanEnvironment(fleet.env),
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
  });
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stdout) seen += decoder.decode(bytes, { stream: true });
  })();
  return {
    seen: () => seen,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await Promise.all([child.exited, reading]);
    },
  };
}
