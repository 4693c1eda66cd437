import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readPayload } from "../src/domain/hook-payload.ts";
import { mayHaveClosed } from "../src/domain/tool-call.ts";
import { bdAt } from "../src/effects/beads.ts";
import { issueAt, withBd } from "./support/beads.ts";
import { type Answer, isBesideDatabase, snapshot } from "./support/cli.ts";
import { type AgentView, type Fleet, startFleet } from "./support/fleet.ts";
import { standInFleet } from "./support/stand-in-claude.ts";
import { tempFolder } from "./support/temp.ts";
import { until } from "./support/until.ts";

interface Task {
  id: string;
  title: string;
  body: string;
  status: string;
  priority: string;
  tags: string[];
  files: string[];
  dependsOn: string[];
  waitsFor: string[];
  reason: string | null;
  endedAt: string | null;
}

let fleet: Fleet;
let programs: ReturnType<typeof tempFolder>;
let path = "";
let count = 0;
let name = "";

beforeAll(async () => {
  fleet = await standInFleet({ config: "tracker: beads\nagents: { maxConcurrent: 40 }\n" });
  programs = tempFolder("overseer-bd-");
  path = withBd(programs, fleet.env.PATH ?? "");
  bd("init");
});
afterAll(async () => {
  await fleet[Symbol.asyncDispose]();
  programs.remove();
});
beforeEach(() => {
  count += 1;
  name = `worker-${count}`;
});

/** As a person types it. */
function bd(...args: string[]): string {
  const env = { ...fleet.env, PATH: path };
  const child = Bun.spawnSync([join(programs.path, "bd"), ...args], { cwd: fleet.root, env });
  if (child.exitCode !== 0) throw new Error(`bd ${args.join(" ")}: ${child.stdout}${child.stderr}`);
  return child.stdout.toString();
}

function issue(title: string, ...args: string[]): string {
  return JSON.parse(bd("create", title, ...args, "--json")).id;
}

function overseer(args: readonly string[], options: Parameters<Fleet["overseer"]>[1] = {}): Promise<Answer> {
  return fleet.overseer(args, { ...options, env: { PATH: path, ...options.env } });
}

async function task(...args: string[]): Promise<Task> {
  return (await overseer(["task", ...args, "--json"])).data<{ task: Task }>().task;
}

async function ids(...args: string[]): Promise<string[]> {
  const answer = await overseer(["task", ...args, "--json"]);
  return answer.data<{ tasks: Task[] }>().tasks.map(({ id }) => id);
}

function slinging(what: string, ...more: string[]): string[] {
  return ["sling", what, "--name", name, "--capability", "builder", "--json", ...more];
}

async function sling(what: string, env: Record<string, string> = {}): Promise<AgentView> {
  return (await overseer(slinging(what), { env })).data<{ agent: AgentView }>().agent;
}

function statusOf(id: string): unknown {
  return issueAt(fleet.root, id).status;
}

function row(id: string) {
  return fleet.open((project) => project.ledger.findTask(id));
}

/** All that overseer keeps, but for its logs. */
function kept() {
  return snapshot(join(fleet.root, ".overseer"), {
    except: (file) => file.startsWith("logs") || isBesideDatabase(file),
  });
}

describe("the verbs of task with beads", () => {
  test("create keeps everything there, and nothing in the ledger", async () => {
    const before = kept();
    const first = await task("create", "First");
    const body = "What and why.\n\n--looks like an option\n";
    const args = [
      "create",
      "--priority",
      "urgent",
      "--tag",
      "ui",
      "--tag",
      'web, "too"',
      "--files",
      "src/a,b",
    ];
    const words = [
      "task",
      ...args,
      "--depends",
      first.id,
      "--body",
      "-",
      "--json",
      "--",
      "-x marks the spot",
    ];
    const made = (await overseer(words, { stdin: body })).data<{ task: Task }>().task;
    const expected = {
      title: "-x marks the spot",
      body,
      status: "todo",
      priority: "urgent",
      tags: ["ui", 'web, "too"'],
      files: ["src/a", "b"],
      dependsOn: [first.id],
      waitsFor: [first.id],
      reason: null,
      endedAt: null,
    };
    expect(made).toMatchObject(expected);
    expect(await task("show", made.id)).toMatchObject(expected);
    expect(kept()).toEqual(before);
  });

  test("answer in the very shape of the built-in ones", async () => {
    await using other = await standInFleet();
    const create = ["task", "create", "Same", "--json"];
    const builtin = (await other.overseer(create)).data<{ task: Task }>().task;
    const beads = (await overseer(create)).data<{ task: Task }>().task;
    const shape = (value: object) => Object.entries(value).map(([key, field]) => [key, typeof field]);
    expect(shape(beads).toSorted()).toEqual(shape(builtin).toSorted());
    const close = async (from: typeof overseer, id: string) =>
      Object.keys((await from(["task", "close", id, "--reason", "x", "--json"])).data<object>());
    expect(await close(overseer, beads.id)).toEqual(await close(other.overseer, builtin.id));
  });

  test.each([
    ["urgent", 0],
    ["high", 1],
    ["normal", 2],
    ["low", 3],
  ])("%s is priority %d there, and back", async (priority, number) => {
    const { id } = await task("create", "How urgent", "--priority", priority);
    expect(issueAt(fleet.root, id).priority).toBe(number);
    expect((await task("show", id)).priority).toBe(priority);
  });

  test("list, ready, show and close say what beads says", async () => {
    const late = issue("Some day", "-p", "4");
    const soon = issue("Soon", "-p", "1", "-d", "With a text.");
    const after = issue("After that", "-p", "0", "--deps", soon);
    const open = (await ids("list")).filter((id) => [late, soon, after].includes(id));
    expect(open).toEqual([after, soon, late]);
    const ready = (await ids("ready")).filter((id) => [late, soon, after].includes(id));
    expect(ready).toEqual([soon, late]);
    expect(await task("show", late)).toMatchObject({ priority: "low", status: "queued" });
    expect(await task("show", after)).toMatchObject({ status: "todo", waitsFor: [soon] });
    // The part that only one has will do, as for bd itself.
    expect((await task("show", soon.split("-")[1] ?? "")).body).toBe("With a text.");
    const close = await overseer(["task", "close", soon, "--reason", "It is there.", "--json"]);
    const closed = close.data<{ task: Task; queued: string[] }>();
    expect(closed).toMatchObject({ task: { status: "done", reason: "It is there." }, queued: [after] });
    expect(await ids("list")).not.toContain(soon);
    expect(await ids("list", "--all")).toContain(soon);
    expect(await ids("list", "--status", "done")).toContain(soon);
    expect(await ids("ready")).toContain(after);
    expect((await overseer(["task", "list"])).stdout).toContain("After that");
  });

  test("understand the envelope of newer versions", async () => {
    const first = issue("In an envelope");
    const after = issue("And after", "--deps", first);
    const env = { BD_JSON_ENVELOPE: "1" };
    const listed = await overseer(["task", "list", "--json"], { env });
    expect(listed.data<{ tasks: Task[] }>().tasks.map(({ id }) => id)).toContain(after);
    const created = await overseer(["task", "create", "Another", "--json"], { env });
    expect(created.data<{ task: Task }>().task.title).toBe("Another");
    const closed = await overseer(["task", "close", first, "--reason", "x", "--json"], { env });
    expect(closed.data<{ queued: string[] }>().queued).toEqual([after]);
    const unknown = await overseer(["task", "show", "nobody-1", "--json"], { env });
    expect(unknown.error().code).toBe("task_unknown");
  });

  test("refuse what is unknown and name what is near", async () => {
    const id = issue("Known");
    const near = await overseer(["task", "show", `${id.slice(0, -1)}_`, "--json"]);
    expect(near.error()).toMatchObject({ code: "task_unknown", hint: expect.stringContaining(id) });
    const before = await ids("list");
    const depends = await overseer(["task", "create", "x", "--depends", `${id},nothing-1`, "--json"]);
    expect(depends.error()).toMatchObject({ code: "dependency_unknown" });
    expect(await ids("list")).toEqual(before);
  });
});

describe("a bd that is not as it should be", () => {
  const INSTALL = /npm install -g @beads\/bd, or set tracker: builtin/;

  function broken(script: string): Record<string, string> {
    return { PATH: withBd(tempFolderOf(), fleet.env.PATH ?? "", script) };
  }

  function tempFolderOf() {
    const folder = programs.path;
    return {
      ...programs,
      path: join(folder, name),
      write: (file: string, content: string, mode?: number) =>
        programs.write(join(name, file), content, mode),
    };
  }

  test("missing ends with 69 and says how to go on, for each verb and for sling", async () => {
    const before = kept();
    for (const words of [
      ["task", "create", "x"],
      ["task", "list"],
      ["task", "ready"],
      ["task", "show", "proj-1"],
      ["task", "close", "proj-1", "--reason", "x"],
      ["sling", "proj-1", "--name", name, "--capability", "builder"],
      ["sling", "some new text", "--name", name, "--capability", "builder"],
    ]) {
      const answer = await overseer([...words, "--json"], { env: { PATH: fleet.env.PATH ?? "" } });
      expect([words, answer.exitCode]).toEqual([words, 69]);
      expect(answer.error()).toMatchObject({ code: "program_missing", hint: expect.stringMatching(INSTALL) });
    }
    expect(kept()).toEqual(before);
  });

  test.each([
    ["words instead of JSON", "echo 'Welcome to beads'", "did not answer in JSON: Welcome to beads"],
    ["nothing", "exit 0", "nothing at all"],
    ["an error object", `echo '{"error":"database is locked"}'`, "database is locked"],
    ["an error object and 1", `echo '{"error":"no beads database"}'; exit 1`, "no beads database"],
    ["an error on stderr", `echo '{"error":"migration needed"}' >&2; exit 1`, "migration needed"],
    ["words and 1", "echo 'Error: dolt is gone' >&2; exit 1", "Error: dolt is gone"],
    ["something else", `echo '{"total": 7}'`, '{"total":7}'],
    ["issues without a title", `echo '[{"id":"x-1"}]'`, '[{"id":"x-1"}]'],
    ["20 MB", "yes '[' | head -c 20971520", "more than overseer reads"],
  ])("that answers with %s is told in its own words, and nothing changes", async (_, script, words) => {
    const before = kept();
    for (const args of [
      ["task", "list"],
      ["task", "create", "x"],
      slinging("proj-1"),
      slinging("a new text"),
    ]) {
      const answer = await overseer([...args, "--json"], { env: broken(script) });
      expect(answer.exitCode).toBe(1);
      expect(answer.error()).toMatchObject({
        code: "command_failed",
        message: expect.stringContaining(words),
      });
    }
    expect(kept()).toEqual(before);
  });

  test("that hangs is ended", async () => {
    const { PATH = "" } = broken("exec sleep 60");
    const asking = bdAt(fleet.root, { PATH }, 200).ask(["list"]);
    expect(asking).rejects.toMatchObject({
      code: "command_timeout",
      message: expect.stringContaining("bd did"),
    });
    await asking.catch(() => null);
  });

  test("an id that would be no good for a branch is refused", async () => {
    const env = broken(`echo '[{"id":"../x","title":"y","status":"open","priority":2}]'`);
    const answer = await overseer(slinging("x-1"), { env });
    expect(answer.error().code).toBe("task_id_invalid");
  });

  test("that does not take the claim takes the spawn back with it", async () => {
    const id = issue("Not to be claimed");
    const env = broken(
      `case "$1 $3" in "update --status=in_progress") echo no >&2; exit 1;; esac; real_bd "$@"`,
    );
    const answer = await overseer(slinging(id), { env });
    expect(answer.error()).toMatchObject({ code: "command_failed", message: "bd update: no" });
    expect(statusOf(id)).toBe("open");
    expect(await row(id)).toMatchObject({ status: "queued" });
    expect(fleet.repo.git("branch", "--list", `overseer/${name}/*`)).toBe("");
    expect((await fleet.session(name)).state).toBe("failed");
  });

  test("that does not close what is done is told again by whoever repairs", async () => {
    const id = issue("Not to be closed yet");
    const env = broken(`case "$1" in close) echo no >&2; exit 1;; esac; real_bd "$@"`);
    await sling(id, { ...env, STAND_IN_DOES: `overseer task close ${id} --reason 'Nothing to do.'` });
    const log = join(fleet.root, ".overseer/logs/errors.log");
    const isTried = () => existsSync(log) && readFileSync(log, "utf8").includes(`finishing ${name}`);
    await until("it was tried", isTried, { timeoutMs: 30_000 });
    expect(statusOf(id)).toBe("in_progress");
    expect(await row(id)).toMatchObject({ status: "done" });
    await overseer(["doctor", "--fix"]);
    expect(issueAt(fleet.root, id)).toMatchObject({ status: "closed", close_reason: "Nothing to do." });
    const results = await fleet.open((project) => project.mail.listMessages({ from: name, limit: 9 }));
    expect(results.map(({ type }) => type)).toEqual(["result"]);
  });

  test("doctor tells the version, and with tracker: beads misses it", async () => {
    const findings = async (env: Record<string, string>) => {
      const { stdout, exitCode } = await overseer(["doctor", "--json"], { env });
      const all: { check: string }[] = JSON.parse(stdout).data.findings;
      return { exitCode, bd: all.find(({ check }) => check === "bd") };
    };
    expect((await findings({})).bd).toMatchObject({ verdict: "ok", detail: "bd version 1.3.0 (stand-in)" });
    const missing = await findings({ PATH: fleet.env.PATH ?? "" });
    expect(missing.exitCode).toBe(1);
    expect(missing.bd).toMatchObject({ verdict: "broken", hint: expect.stringMatching(INSTALL) });
  });
});

describe("sling with beads", () => {
  test("mirrors the issue, claims it there, and closes it when there is nothing to merge", async () => {
    const before = issue("Before");
    const id = issue("Look around", "-d", "BODY of it", "-p", "1", "-l", "ui", "--deps", before);
    const waits = await overseer(slinging(id));
    expect(waits.error()).toMatchObject({ code: "task_waits", message: `${id} waits for ${before}` });
    expect(await row(id)).toBeNull();

    bd("close", before);
    const { taskId, branch } = await sling(id);
    expect([taskId, branch]).toEqual([id, `overseer/${name}/${id}`]);
    expect(statusOf(id)).toBe("in_progress");
    expect(await row(id)).toMatchObject({
      title: "Look around",
      body: "BODY of it",
      priority: "high",
      tags: ["ui"],
      status: "in_progress",
    });
    expect(readFileSync(join(fleet.worktree(name), ".claude/CLAUDE.md"), "utf8")).toContain("BODY of it");
    const taken = await overseer(["sling", id, "--name", "another", "--capability", "builder", "--json"]);
    expect(taken.error().code).toBe("task_taken");
    const closed = await overseer(["task", "close", id, "--reason", "x", "--json"]);
    expect(closed.error().code).toBe("task_taken");
    expect(statusOf(id)).toBe("in_progress");

    await overseer(["stop", name]);
    const again = `${name}-b`;
    const close = `overseer task close ${id} --reason 'Nothing to do.'`;
    const words = ["sling", id, "--name", again, "--capability", "scout", "--json"];
    expect((await overseer(words, { env: { STAND_IN_DOES: close } })).exitCode).toBe(0);
    await fleet.untilState(again, "completed");
    await until("the issue is closed", () => statusOf(id) === "closed", { timeoutMs: 30_000 });
    expect(issueAt(fleet.root, id).close_reason).toBe("Nothing to do.");
    expect(await row(id)).toMatchObject({ status: "done" });
    expect((await overseer(slinging(id))).error().code).toBe("task_closed");
    // Opened again there, it is a task like any other.
    bd("update", id, "--status", "open");
    name = `${name}-c`;
    await sling(id);
    expect(await row(id)).toMatchObject({ status: "in_progress", endedAt: null });
  });

  test("an issue of an epic, with a dot in its id", async () => {
    const parent = issue("Epic");
    const child = `${parent}.1`;
    const made = { ...issueAt(fleet.root, parent), id: child, title: "A part" };
    fleet.repo.write(`.beads/${child}.json`, JSON.stringify(made));
    expect((await sling(child)).branch).toBe(`overseer/${name}/${child}`);
  });

  test("a branch with work keeps the issue in progress until it has landed", async () => {
    const id = issue("Make a file");
    const does = `echo hello > ${name}.txt && git add -A && git commit -qm work && overseer task close ${id} --reason done`;
    await sling(id, { STAND_IN_DOES: does });
    await fleet.untilState(name, "completed");
    await until(
      "its pane is gone",
      () => !fleet.panes().some(({ session }) => session === `overseer-${name}`),
    );
    expect(statusOf(id)).toBe("in_progress");
    fleet.repo.git("merge", "--quiet", "--no-edit", `overseer/${name}/${id}`);
    expect((await overseer(["worktree", "clean", name])).exitCode).toBe(0);
    expect(issueAt(fleet.root, id)).toMatchObject({
      status: "closed",
      close_reason: "its branch has landed",
    });
    expect(await row(id)).toMatchObject({ status: "done" });
  });

  test("work that is given up opens the issue again, unless somebody has closed it there", async () => {
    const id = issue("Give it up");
    await sling(id);
    await overseer(["stop", name]);
    expect((await overseer(["worktree", "clean", name, "--force"])).exitCode).toBe(0);
    expect(statusOf(id)).toBe("open");
    await sling(id);
    await overseer(["stop", name]);
    bd("close", id, "--reason", "not needed");
    expect((await overseer(["worktree", "clean", name, "--force"])).exitCode).toBe(0);
    expect(issueAt(fleet.root, id)).toMatchObject({ status: "closed", close_reason: "not needed" });
  });

  test("a new text is an issue first, and closed when nothing comes of it", async () => {
    const { taskId } = await sling("Write the parser\nIt reads numbers.");
    expect(issueAt(fleet.root, taskId)).toMatchObject({
      title: "Write the parser",
      description: "It reads numbers.",
      status: "in_progress",
    });
    const before = await ids("list", "--all");
    const taken = await overseer(slinging("Of a name that is taken"));
    expect(taken.error().code).toBe("name_taken");
    expect(await ids("list", "--all")).toEqual(before);

    name = `${name}-b`;
    fleet.repo.git("branch", `overseer/${name}`);
    expect((await overseer(slinging("No room for its branch"))).error().code).toBe("branch_exists");
    const [withdrawn = ""] = (await ids("list", "--all")).filter((id) => !before.includes(id));
    expect(issueAt(fleet.root, withdrawn)).toMatchObject({
      title: "No room for its branch",
      status: "closed",
    });
    before.push(withdrawn);

    name = `${name}-c`;
    const config = readFileSync(join(fleet.root, ".overseer/config.yaml"), "utf8");
    fleet.repo.write(".overseer/config.yaml", `${config}worktrees: { setup: exit 7 }\n`);
    const failed = await overseer(slinging("Not to be begun"));
    fleet.repo.write(".overseer/config.yaml", config);
    expect(failed.error().code).toBe("setup_failed");
    const made = (await ids("list", "--all")).filter((id) => !before.includes(id));
    expect(made.map((id) => issueAt(fleet.root, id))).toEqual([
      expect.objectContaining({ status: "closed", close_reason: `${name} could not be started` }),
    ]);
  });
});

describe("bd close of a worker's own task", () => {
  /** What Claude Code tells the PostToolUse hook of a command that has run. */
  function seen(command: string, tool = "Bash"): string {
    return JSON.stringify({
      session_id: "s-1",
      tool_name: tool,
      tool_input: { command },
      tool_response: {},
    });
  }

  /** Runs a command, and fires the hook for it as Claude Code does. */
  function ran(command: string): string {
    return `${command}; printf %s '${seen(command)}' | overseer log tool-end >&2`;
  }

  async function finish(): Promise<boolean> {
    const answer = await overseer(["finish", name, "--if-closed", "--json"]);
    return answer.data<{ finished: boolean }>().finished;
  }

  async function isCompleting(): Promise<boolean> {
    const { id } = await fleet.session(name);
    return await fleet.open((project) => project.ledger.isCompleting(id));
  }

  async function mails(): Promise<{ type: string; from: string; body: string }[]> {
    const answer = await overseer(["mail", "list", "--to", name, "--json"]);
    return answer.data<{ messages: { type: string; from: string; body: string }[] }>().messages;
  }

  test("is its announcement; the branch is handed in, and the issue waits for it to land", async () => {
    const id = issue("Close it with bd");
    const work = "echo one > one.txt && git add -A && git commit -qm one";
    await sling(id, { STAND_IN_DOES: `${work}; ${ran(`bd close ${id} --reason Finished`)}` });
    await fleet.untilState(name, "completed");
    const entries = await fleet.open((project) => project.ledger.mergeEntries({ taskId: id }));
    expect(entries.map(({ status, branch }) => [status, branch])).toEqual([
      ["pending", `overseer/${name}/${id}`],
    ]);
    expect(statusOf(id)).toBe("in_progress");
    // It is told after it was recorded.
    const result = await until("its result is in the mail", async () => {
      const [sent] = await fleet.open((project) => project.mail.listMessages({ from: name, limit: 9 }));
      return sent;
    });
    expect(result).toMatchObject({ type: "result", body: expect.stringContaining("Finished") });
  });

  test("is carried out at once when its turn was over before it was announced", async () => {
    const id = issue("Slow to be seen");
    await sling(id, { STAND_IN_DOES: "true" });
    await fleet.untilState(name, "idle");
    bd("close", id, "--reason", "late");
    expect(await finish()).toBe(true);
    expect((await fleet.session(name)).state).toBe("completed");
    expect(issueAt(fleet.root, id)).toMatchObject({ status: "closed", close_reason: "late" });
  });

  test("is left to its next Stop when it was shown mail at its last", async () => {
    const id = issue("Interrupted by mail");
    await sling(id, { STAND_IN_DOES: "true" });
    await fleet.untilState(name, "idle");
    await overseer(["mail", "send", "--to", name, "--subject", "One more thing", "--body", "x"]);
    await fleet.open((project) =>
      project.mail.claim({
        recipient: name,
        claimant: { process: "1:x", claudeSessionId: "s-1" },
        at: 1,
        pressingOnly: false,
        maxLength: 8_000,
      }),
    );
    bd("close", id);
    expect(await finish()).toBe(false);
    expect(await isCompleting()).toBe(true);
  });

  test("is refused by mail while there is something uncommitted, and the issue is open again", async () => {
    const id = issue("Leave something behind");
    await sling(id, { STAND_IN_DOES: `echo left > left.txt; ${ran(`bd close ${id}`)}` });
    const [mail] = await until("the refusal has come", async () => {
      const all = await mails();
      return all.length > 0 ? all : null;
    });
    expect(mail).toMatchObject({ type: "steer", from: "overseer" });
    expect(mail?.body).toContain("uncommitted changes in left.txt");
    expect(mail?.body).toContain(`overseer task close ${id}`);
    expect(statusOf(id)).toBe("in_progress");
    expect(await isCompleting()).toBe(false);
  });

  test("is nothing while the tracker says that the task is open", async () => {
    const id = issue("Still open");
    await sling(id);
    expect(await finish()).toBe(false);
    expect(await isCompleting()).toBe(false);
    expect(statusOf(id)).toBe("in_progress");
    expect(await mails()).toEqual([]);
  });

  test.each([
    ["bd close p-a3f8", "Bash", true],
    ["cd x && bd close --reason 'All done' p-a3f8 && echo", "Bash", true],
    ["bd done p-a3f8", "Bash", true],
    ["bd close p-b111", "Bash", false],
    ["bd show p-a3f8", "Bash", false],
    ["bd close p-a3f8", "Read", false],
  ])("is looked for in %p of %s", (command, tool, is) => {
    const payload = readPayload(seen(command, tool));
    expect(payload && mayHaveClosed(payload, "p-a3f8")).toBe(is);
  });
});

test("a worker of the real claude closes its issue with bd, knows what mulch knows, and is handed in", async () => {
  const id = "proj-a3f8";
  const made = { id, title: "Count to one", status: "open", priority: 2, issue_type: "task" };
  const at = "2026-01-02T03:04:05Z";
  await using own = await startFleet({
    files: {
      "README.md": "# test\n",
      [`.beads/${id}.json`]: JSON.stringify({ ...made, created_at: at, updated_at: at }),
      ".gitignore": ".beads/\n",
    },
    config: "tracker: beads\n",
    tell(model) {
      model
        .whenPrompt("Count to one")
        .expects("Answers are never cached", { times: 1 })
        .uses("Bash", { command: `echo two > two.txt && bd close ${id}` })
        .holds("refusal")
        .uses("Bash", { command: "rm two.txt" })
        .expects("uncommitted changes in two.txt", { times: 1 })
        .uses("Bash", { command: "echo one > one.txt && git add -A && git commit -qm one" })
        .uses("Bash", { command: `bd close ${id} --reason 'It counts.'` })
        .says("Done.");
    },
  });
  const env = { PATH: withBd(programs, own.env.PATH ?? "") };
  for (const words of [
    ["init"],
    ["add", "api"],
    ["record", "api", "--type", "convention", "Answers are never cached"],
  ]) {
    Bun.spawnSync(["mulch", ...words], { cwd: own.root, env: { ...own.env, ...env } });
  }
  const slung = await own.overseer(["sling", id, "--name", "ada", "--capability", "builder"], { env });
  expect([slung.exitCode, slung.stderr]).toEqual([0, ""]);
  const refused = () => own.open((project) => project.mail.listMessages({ to: "ada", limit: 9 }));
  await until("it is told why not", async () => (await refused()).length > 0, { timeoutMs: 30_000 });
  own.model.release("refusal");

  const session = await own.untilState("ada", "completed");
  own.model.verify();
  const entries = await own.open((project) => project.ledger.mergeEntries({ taskId: id }));
  expect(entries).toEqual([
    expect.objectContaining({ status: "pending", branch: `overseer/ada/${id}`, files: ["one.txt"] }),
  ]);
  expect(session.cause).toBe("it closed its task");
  expect(issueAt(own.root, id).status).toBe("in_progress");
  const [result] = await own.open((project) => project.mail.listMessages({ from: "ada", limit: 9 }));
  expect(result).toMatchObject({ type: "result", body: expect.stringContaining("It counts.") });
});
