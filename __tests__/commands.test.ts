import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import packageJson from "../package.json" with { type: "json" };
import { COMMANDS, GROUPS } from "../src/cli/registry.ts";
import { isLive } from "../src/domain/session.ts";
import { registerWorker } from "../src/flows/register.ts";
import { cleanEnvironment, OVERSEER, overseer } from "./support/cli.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { tempFolder, tempRepo } from "./support/temp.ts";

const ESCAPE = "\u001b";

interface Example {
  /** One ordinary use of the command. */
  args: readonly string[];
  stdin?: string;
  says: RegExp;
  /** The keys of the data, in any order. */
  data: readonly string[];
  /** What must be so before each use. */
  before?: () => Promise<unknown>;
}

let fleet: Fleet;
let taskId: string;
let messageId: string;
let examples: Record<string, Example>;

/** Nobody runs under ada's name, so that her mail waits for the test; bob and kim are real. */
beforeAll(async () => {
  fleet = await startFleet({
    tell(model) {
      const story = model.whenPrompt("You are bob").uses("Bash", { command: "echo hello > hello.txt" });
      story.says("All is well.").mayGoOn();
      model.whenPrompt(/./).says("Done.").mayGoOn();
    },
  });
  await fleet.open((project) => registerWorker(project, { name: "ada", capability: "builder" }));
  taskId = (await create("Add a login form")).id;
  messageId = (await send("first")).id;
  for (const name of ["bob", "kim"]) await fleet.sling(name, `Say hello, ${name}`);
  for (const name of ["bob", "kim"]) await fleet.untilState(name, "idle");
  examples = await makeExamples();
});
afterAll(() => fleet[Symbol.asyncDispose]());

async function ensureKim(isRunning: boolean): Promise<void> {
  const { state } = await fleet.session("kim");
  if (isLive(state) === isRunning) return;
  (await fleet.overseer([isRunning ? "resume" : "stop", "kim", "--json"])).data();
}

/** A worker that has ended and left nothing to merge. */
async function makeZoe(): Promise<void> {
  await fleet.sling("zoe", "Look around");
  (await fleet.overseer(["stop", "zoe", "--json"])).data();
}

async function create(title: string): Promise<{ id: string }> {
  const { task } = (await fleet.overseer(["task", "create", title, "--json"])).data<{
    task: { id: string };
  }>();
  return task;
}

async function send(subject: string): Promise<{ id: string }> {
  const args = ["mail", "send", "--to", "ada,human", "--subject", subject, "--body", "text", "--json"];
  const [message] = (await fleet.overseer(args)).data<{ messages: { id: string }[] }>().messages;
  return message ?? { id: "none" };
}

/** One use of each command. A command of the registry that is not here fails a test below. */
async function makeExamples(): Promise<Record<string, Example>> {
  const other = (await create("Something to close")).id;
  const third = (await create("Something else to close")).id;
  let close = other;
  let sling = "eve";
  return {
    init: {
      args: ["init"],
      says: /set up in .* already/,
      data: ["root", "canonicalBranch", "isNew", "changed"],
    },
    sling: {
      get args() {
        const name = sling;
        sling = "max";
        return ["sling", "Add a sign", "--capability", "builder", "--name", name];
      },
      says: /^eve is at work on (t-\w+) \(overseer\/eve\/\1\)\noverseer peek eve/,
      data: ["agent"],
    },
    wait: {
      args: ["wait", "bob", "--for", "idle", "--timeout", "60s"],
      says: /^bob is idle \(.+\)$/m,
      data: ["agents"],
    },
    peek: { args: ["peek", "bob"], says: /All is well\./, data: ["name", "text"] },
    attach: { args: ["attach", "bob"], says: /not a terminal/, data: ["name", "command"] },
    diff: {
      args: ["diff", "bob"],
      says: /^\+\+\+ b\/hello\.txt\n.*\n\+hello$/m,
      data: ["name", "branch", "hasWorktree", "base", "files", "diff"],
    },
    logs: { args: ["logs", "bob"], says: /Bash/, data: ["name", "lines"] },
    inspect: {
      args: ["inspect", "bob"],
      says: /^bob, a builder\nstate +idle for /,
      data: [
        ...["agent", "task", "mergeEntries", "spawn", "events", "incarnations", "isRunning", "hasPane"],
        ...["hasWorktree", "uncommitted", "ahead", "behind", "sessionsCompleted", "children", "files"],
      ],
    },
    stop: {
      args: ["stop", "kim"],
      says: /^Stopped kim; worktrees and branches stay\.\ngo on: overseer resume kim$/m,
      data: ["stopped", "stillWorking"],
      before: () => ensureKim(true),
    },
    resume: {
      args: ["resume", "kim"],
      says: /^kim goes on with t-\w+$/m,
      data: ["agents", "finished", "failed"],
      before: () => ensureKim(false),
    },
    "worktree list": {
      args: ["worktree", "list"],
      says: /^bob +idle +overseer\/bob\/t-\w+ +1 uncommitted$/m,
      data: ["worktrees"],
    },
    "worktree clean": {
      args: ["worktree", "clean", "zoe"],
      says: /^Removed zoe \(overseer\/zoe\/t-\w+\)$/m,
      data: ["removed", "refused", "live"],
      before: makeZoe,
    },
    finish: {
      args: ["finish", "bob"],
      says: /^There is nothing to finish for bob\.$/m,
      data: ["name", "finished"],
    },
    metrics: {
      args: ["metrics"],
      says: /^bob +t-\w+ +idle +\S+ +20 +10 +0 +<\$0\.01 +-$/m,
      data: ["sessions", "agents", "tasks", "total", "unread"],
    },
    status: {
      args: ["status"],
      says: /^bob +builder +idle .* t-\w+ Say hello, bob/m,
      data: [
        "project",
        "agents",
        "orchestrator",
        "tasks",
        "mail",
        "merge",
        "goals",
        "watch",
        "auto",
        "supervise",
      ],
    },
    "task create": {
      args: ["task", "create", "A title"],
      says: /^t-\w+ A title \(ready\)$/m,
      data: ["task"],
    },
    "task list": { args: ["task", "list"], says: /queued +Add a login form/, data: ["tasks"] },
    "task show": {
      args: ["task", "show", taskId],
      says: /Add a login form\nstatus +queued/,
      data: ["task", "worker"],
    },
    "task ready": { args: ["task", "ready"], says: /Add a login form/, data: ["tasks"] },
    "task close": {
      get args() {
        const id = close;
        close = third;
        return ["task", "close", id, "--reason", "done by hand"];
      },
      says: /is done/,
      data: ["task", "queued", "isAnnounced"],
    },
    "mail send": {
      args: ["mail", "send", "--to", "ada", "--subject", "Hello", "--body", "there"],
      says: /^msg-\w+ sent to ada: it is not running; it sees it after overseer resume ada$/m,
      data: ["messages", "deliveries"],
    },
    nudge: {
      args: ["nudge", "bob", "Mind the gap"],
      says: /^msg-\w+ sent to bob: it (?:was idle and has been woken|sees it after its next tool use)$/m,
      data: ["message", "delivery"],
    },
    "mail check": { args: ["mail", "check", "--agent", "ada"], says: /first/, data: ["messages", "left"] },
    "mail wait": { args: ["mail", "wait"], says: /first/, data: ["messages", "left"] },
    "mail list": { args: ["mail", "list"], says: /human to ada {2}first/, data: ["messages"] },
    "mail read": { args: ["mail", "read", messageId], says: /^first\n/, data: ["message"] },
    "mail reply": {
      args: ["mail", "reply", messageId, "--body", "yes"],
      says: /^msg-\w+ sent to ada: it is not running/m,
      data: ["message", "delivery"],
    },
    events: { args: ["events", "--agent", "ada"], says: /session\.registered ada/, data: ["events"] },
    prime: {
      args: ["prime", "--agent", "ada"],
      says: /You are ada, a builder/,
      data: [
        "now",
        "name",
        "capability",
        "isWorker",
        "branch",
        "parent",
        "fileScope",
        "task",
        "lastEvents",
        "unread",
        "unreadTotal",
        "others",
        "readyTasks",
      ],
    },
    log: {
      args: ["log", "session-start", "--agent", "ada"],
      stdin: JSON.stringify({ session_id: "c-1", source: "startup" }),
      says: /You are ada/,
      data: ["output"],
    },
    "config show": {
      args: ["config", "show"],
      says: /tracker +builtin +default/,
      data: ["config", "sources"],
    },
    "config validate": { args: ["config", "validate"], says: /valid: .* sets 2 of/, data: ["valid", "set"] },
    doctor: { args: ["doctor"], says: /ok +ledger/, data: ["healthy", "findings"] },
    completions: { args: ["completions", "bash"], says: /complete -F _overseer overseer/, data: ["script"] },
    uninstall: { args: ["uninstall"], says: /overseer is gone/, data: ["restored", "kept"] },
  };
}

const paths = COMMANDS.map(({ path }) => path.join(" "));

test("every command of the registry has an example here, and no other has", () => {
  expect(Object.keys(examples).sort()).toEqual(paths.toSorted());
});

describe("a command that succeeds", () => {
  for (const path of paths.filter((known) => !["uninstall", "attach"].includes(known))) {
    test(`${path} answers in words on stdout, and in one JSON envelope`, async () => {
      const example = examples[path];
      if (!example) throw new Error(`no example of ${path}`);
      const { stdin = "", says } = example;
      await example.before?.();
      const text = await fleet.overseer(example.args, { stdin });
      expect(text).toMatchObject({ exitCode: 0, stderr: "" });
      expect(text.stdout).toMatch(says);
      expect(text.stdout).not.toContain(ESCAPE);
      expect(text.stdout).toEndWith("\n");
      if (path.startsWith("mail ")) await send("first");

      await example.before?.();
      const json = await fleet.overseer([...example.args, "--json"], { stdin });
      expect(json).toMatchObject({ exitCode: 0, stderr: "" });
      expect(json.stdout).toEndWith("}\n");
      const { data, ...rest } = JSON.parse(json.stdout);
      expect(rest).toEqual({ ok: true, command: path });
      expect(Object.keys(data).sort()).toEqual([...example.data].sort());
    });
  }

  test("attach needs a terminal, and names the command for one, also in its JSON envelope", async () => {
    const command = ["tmux", "-S", `/tmp/tmux-${process.getuid?.() ?? 0}/${fleet.socket}`];
    const text = await fleet.overseer(["attach", "bob"]);
    expect(text).toMatchObject({ exitCode: 64, stdout: "" });
    expect(text.stderr).toMatch(examples.attach?.says ?? /no example/);
    expect(text.stderr).toContain(`next: in a terminal: ${command.join(" ")}`);
    const json = JSON.parse((await fleet.overseer(["attach", "bob", "--json"])).stdout);
    expect(json).toEqual({ ok: true, command: "attach", data: { name: "bob", command: expect.any(Array) } });
    expect(json.data.command.slice(0, 3)).toEqual(command);
  });

  test("uninstall answers in words on stdout, and in one JSON envelope", async () => {
    using repo = tempRepo();
    await overseer(repo.path, ["init"]);
    const text = await overseer(repo.path, ["uninstall"]);
    expect(text).toMatchObject({ exitCode: 0, stderr: "" });
    expect(text.stdout).toStartWith("overseer is gone from this repository");
    await overseer(repo.path, ["init"]);
    const json = await overseer(repo.path, ["uninstall", "--json"]);
    expect(JSON.parse(json.stdout)).toEqual({
      ok: true,
      command: "uninstall",
      data: { restored: [".claude/settings.local.json", ".claude/CLAUDE.md"], kept: [] },
    });
  });
});

describe("help", () => {
  for (const spec of COMMANDS) {
    const path = spec.path.join(" ");
    test(`overseer ${path} --help explains its arguments and options`, async () => {
      const { exitCode, stdout, stderr } = await fleet.overseer([...spec.path, "--help"]);
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      expect(stdout).toStartWith(`Usage: overseer ${path} [options]`);
      expect(stdout).toContain(spec.summary);
      for (const { flags } of spec.options ?? []) expect(stdout).toContain(flags);
      for (const { name, isOptional, isList } of spec.arguments ?? []) {
        const word = isList ? `${name}...` : name;
        expect(stdout).toContain(isOptional ? `[${word}]` : `<${word}>`);
      }
      expect(stdout).toContain("--json");
    });
  }

  for (const group of Object.keys(GROUPS)) {
    test(`overseer ${group} --help lists its commands, and without a command it does so as a mistake`, async () => {
      const help = await fleet.overseer([group, "--help"]);
      expect(help).toMatchObject({ exitCode: 0, stderr: "" });
      for (const { path } of COMMANDS.filter((spec) => spec.path[0] === group)) {
        expect(help.stdout).toMatch(new RegExp(`^  ${path[1]} `, "m"));
      }
      expect(await fleet.overseer([group])).toMatchObject({ exitCode: 64, stdout: help.stdout });
    });
  }

  test("overseer alone shows what there is and ends as a usage error does; --help is the same without the error", async () => {
    const alone = await fleet.overseer([]);
    const help = await fleet.overseer(["--help"]);
    expect(alone).toMatchObject({ exitCode: 64, stdout: help.stdout });
    expect(help).toMatchObject({ exitCode: 0, stderr: "" });
    for (const [first] of COMMANDS.map(({ path }) => path))
      expect(help.stdout).toMatch(new RegExp(`^  ${first} `, "m"));
  });

  test("--version prints the version of the package", async () => {
    for (const flag of ["--version", "-V"]) {
      expect(await fleet.overseer([flag])).toMatchObject({
        exitCode: 0,
        stdout: `${packageJson.version}\n`,
      });
    }
  });

  test("help and version work outside of any repository", async () => {
    using folder = tempFolder();
    expect((await overseer(folder.path, ["mail", "send", "--help"])).exitCode).toBe(0);
    expect((await overseer(folder.path, ["--version"])).exitCode).toBe(0);
  });
});

describe("a command that fails", () => {
  interface Failure {
    args: readonly string[];
    exitCode: number;
    code: string;
    command: string;
    says: RegExp;
    hint?: RegExp;
    env?: Record<string, string>;
  }
  const failures: Record<string, Failure> = {
    "an unknown command": {
      args: ["stauts"],
      exitCode: 64,
      code: "usage",
      command: "stauts",
      says: /unknown command 'stauts' \(Did you mean status\?\)/,
      hint: /^overseer --help$/,
    },
    "an unknown command of a group": {
      args: ["mail", "snd"],
      exitCode: 64,
      code: "usage",
      command: "mail",
      says: /unknown command 'snd' \(Did you mean send\?\)/,
      hint: /^overseer mail --help$/,
    },
    "an unknown option": {
      args: ["status", "--verbos"],
      exitCode: 64,
      code: "usage",
      command: "status",
      says: /unknown option '--verbos'/,
      hint: /^overseer status --help$/,
    },
    "a mistyped option": {
      args: ["mail", "list", "--unraed"],
      exitCode: 64,
      code: "usage",
      command: "mail list",
      says: /Did you mean --unread\?/,
      hint: /^overseer mail list --help$/,
    },
    "a missing argument": {
      args: ["task", "show"],
      exitCode: 64,
      code: "usage",
      command: "task show",
      says: /missing required argument 'id'/,
    },
    "one word too many": {
      args: ["task", "create", "Add", "a form"],
      exitCode: 64,
      code: "usage",
      command: "task create",
      says: /too many arguments/,
    },
    "a missing option": {
      args: ["task", "close", "t-1"],
      exitCode: 64,
      code: "usage",
      command: "task close",
      says: /required option '--reason <text>' not specified/,
    },
    "a value that is not allowed": {
      args: ["task", "list", "--status", "doing"],
      exitCode: 64,
      code: "usage",
      command: "task list",
      says: /Allowed choices are todo, queued/,
    },
    "a limit that is no number": {
      args: ["events", "--limit", "many"],
      exitCode: 64,
      code: "usage",
      command: "events",
      says: /--limit takes a whole number from 1 to 100000, not "many"/,
    },
    "something that is not there": {
      args: ["task", "show", "t-nothing"],
      exitCode: 64,
      code: "task_unknown",
      command: "task show",
      says: /there is no task "t-nothing"/,
      hint: /overseer task list/,
    },
    "a program that is missing": {
      args: ["init"],
      exitCode: 69,
      code: "program_missing",
      command: "init",
      says: /git is not installed/,
      hint: /overseer doctor/,
      // What /bin/sh needs to start overseer at all, and nothing else.
      env: { PATH: "/nowhere" },
    },
    "something that may come later": {
      args: ["mail", "wait", "--agent", "orchestrator", "--timeout", "1ms"],
      exitCode: 75,
      code: "nothing_yet",
      command: "mail wait",
      says: /no mail for orchestrator yet/,
    },
  };

  for (const [what, failure] of Object.entries(failures)) {
    test(`${what} is told on stderr with what to do next, or in an envelope, and ends with ${failure.exitCode}`, async () => {
      const { args, exitCode, code, command, says, hint, env = {} } = failure;
      const text = await fleet.overseer(args, { env });
      expect(text).toMatchObject({ exitCode, stdout: "" });
      expect(text.stderr).toMatch(/^overseer: /);
      expect(text.stderr).toMatch(says);
      expect(text.stderr).not.toContain(ESCAPE);

      const json = await fleet.overseer([...args, "--json"], { env });
      expect(json).toMatchObject({ exitCode, stderr: "" });
      const { error, ...rest } = JSON.parse(json.stdout);
      expect(rest).toEqual({ ok: false, command });
      expect(error.code).toBe(code);
      expect(error.message).toMatch(says);
      if (hint) expect(error.hint).toMatch(hint);
      if (error.hint) expect(text.stderr).toContain(`\n  next: ${error.hint}\n`);
    });
  }

  test("outside of a project, every command that needs one says how to make one", async () => {
    using folder = tempFolder();
    using repo = tempRepo();
    const outside = await overseer(folder.path, ["status", "--json"]);
    expect(outside).toMatchObject({ exitCode: 1 });
    expect(outside.error()).toMatchObject({
      code: "not_initialised",
      hint: expect.stringContaining("git init"),
    });
    for (const args of [["status"], ["mail", "check"], ["task", "list"], ["doctor"], ["uninstall"]]) {
      const before = await overseer(repo.path, [...args, "--json"]);
      expect(before.error()).toMatchObject({ code: "not_initialised", hint: "overseer init" });
    }
    expect(repo.git("status", "--porcelain")).toBe("");
  });

  test("a working directory that is gone is an error in words, not a stack", async () => {
    using folder = tempFolder();
    const script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" status';
    const { exitCode, stdout, stderr } = Bun.spawnSync(["sh", "-c", script, OVERSEER], {
      cwd: folder.path,
      env: cleanEnvironment(),
    });
    expect({ exitCode, stdout: stdout.toString() }).toEqual({ exitCode: 1, stdout: "" });
    expect(stderr.toString()).toMatch(/^overseer: /m);
    expect(stderr.toString()).not.toMatch(/^\s+at /m);
  });
});
