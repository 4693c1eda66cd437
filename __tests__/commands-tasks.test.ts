import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  type Answer,
  isBesideDatabase,
  snapshot,
  type TempProject,
  tempProject,
  UNPRINTABLE,
} from "./support/cli.ts";

interface Task {
  id: string;
  title: string;
  status: string;
  dependsOn: string[];
  waitsFor: string[];
  reason: string | null;
  createdAt: string;
  updatedAt: string;
}

let project: TempProject;
beforeEach(async () => {
  project = await tempProject();
});
afterEach(() => project.remove());

function task(args: readonly string[], stdin?: string): Promise<Answer> {
  return project.overseer(["task", ...args, "--json"], stdin === undefined ? {} : { stdin });
}

async function create(title: string, ...more: string[]): Promise<Task> {
  return (await task(["create", title, ...more])).data<{ task: Task }>().task;
}

async function titles(...args: string[]): Promise<string[]> {
  return (await task(args)).data<{ tasks: Task[] }>().tasks.map(({ title }) => title);
}

async function show(id: string): Promise<Task> {
  return (await task(["show", id])).data<{ task: Task }>().task;
}

describe("task create", () => {
  test("keeps everything it is given", async () => {
    const first = await create("First");
    const args = ["create", "  Add a login form ", "--body", "-", "--files", "src/login, docs/*.md,"];
    const more = ["--depends", first.id, "--priority", "urgent", "--tag", "ui", "--tag", "web, too"];
    const body = "What and why.\n\n- accepted when it works\n";
    const made = (await task([...args, ...more], body)).data<{ task: Task }>().task;
    const { createdAt, updatedAt, ...rest } = made;
    expect(rest as Record<string, unknown>).toEqual({
      id: made.id,
      kind: "task",
      parentId: null,
      title: "Add a login form",
      body,
      status: "todo",
      priority: "urgent",
      files: ["src/login", "docs/*.md"],
      tags: ["ui", "web, too"],
      dependsOn: [first.id],
      waitsFor: [first.id],
      reason: null,
      endedAt: null,
    });
    for (const time of [createdAt, updatedAt]) expect(new Date(time).toISOString()).toBe(time);
    expect(made.id).toMatch(/^t-[a-z2-9]{6}$/);
    expect(await show(made.id)).toEqual(made);
  });

  test("takes a comma within the braces of a glob as a part of it", async () => {
    const made = await create("Globs", "--files", "src/{a,b}.ts, docs/*.md,lib/{c,d}/{e,f}");
    expect(made).toMatchObject({ files: ["src/{a,b}.ts", "docs/*.md", "lib/{c,d}/{e,f}"] });
  });

  test("without anything to wait for it is ready", async () => {
    expect(await create("Alone")).toMatchObject({ status: "queued", waitsFor: [], dependsOn: [] });
    const { stdout } = await project.overseer(["task", "create", "Another"]);
    expect(stdout).toMatch(/^t-\w+ Another \(ready\)\n$/);
  });

  test("an empty title, a long one, one of several lines and a long body are refused, with nothing created", async () => {
    for (const title of ["", "  ", "x".repeat(201), "one\ntwo"]) {
      const refused = await task(["create", title]);
      expect(refused.exitCode).toBe(64);
      expect(refused.error().code).toBe("usage");
    }
    expect((await task(["create", "Long", "--body", "-"], "x".repeat(65_537))).exitCode).toBe(64);
    expect((await task(["create", "Odd", "--priority", "now"])).exitCode).toBe(64);
    expect(await titles("list", "--all")).toEqual([]);
    expect((await task(["create", "Long", "--body", "-"], "x".repeat(65_536))).exitCode).toBe(0);
  });

  test("a dependency that is not there is refused, with nothing created", async () => {
    const refused = await task(["create", "Second", "--depends", "t-nothing"]);
    expect(refused.exitCode).toBe(64);
    expect(refused.error()).toMatchObject({ code: "dependency_unknown" });
    expect(await titles("list", "--all")).toEqual([]);
  });

  test("a dependency that is done already is not waited for", async () => {
    const first = await create("First");
    await task(["close", first.id, "--reason", "done"]);
    expect(await create("Second", "--depends", first.id)).toMatchObject({ status: "queued", waitsFor: [] });
  });
});

describe("task ready and task close", () => {
  test("a task is ready when the last one it waits for is closed, and the answer says so", async () => {
    const [a, b] = [await create("a"), await create("b")];
    const c = await create("c", "--depends", `${a.id},${b.id}`);
    const d = await create("d", "--depends", c.id);
    expect(await titles("ready")).toEqual(["a", "b"]);

    const first = (await task(["close", a.id, "--reason", "made"])).data<{ task: Task; queued: string[] }>();
    expect(first).toMatchObject({ task: { status: "done", reason: "made" }, queued: [] });
    const second = await project.overseer(["task", "close", b.id, "--reason", "made too"]);
    expect(second.stdout).toBe(`${b.id} is done; now ready: ${c.id}\n`);
    expect(await titles("ready")).toEqual(["c"]);
    expect(await show(d.id)).toMatchObject({ status: "todo", waitsFor: [c.id] });
  });

  test("twice, without a reason, or with an empty one, is refused", async () => {
    const { id } = await create("Once");
    for (const reason of ["", "  "])
      expect((await task(["close", id, "--reason", reason])).exitCode).toBe(64);
    expect((await task(["close", id])).exitCode).toBe(64);
    expect((await task(["close", id, "--reason", "done"])).exitCode).toBe(0);
    const again = await task(["close", id, "--reason", "other"]);
    expect(again.exitCode).toBe(1);
    expect(again.error()).toMatchObject({ code: "task_closed", message: `${id} is done already` });
    expect((await show(id)).reason).toBe("done");
  });

  test("by its worker it is only announced: the task stays open until the worker's turn has ended", async () => {
    const { id } = await create("Announced");
    const dependant = await create("After that", "--depends", id);
    const env = { OVERSEER_TOKEN: await project.register({ name: "ada", taskId: id }) };
    const text = await project.overseer(["task", "close", id, "--reason", "made"], { env });
    expect(text).toMatchObject({ exitCode: 0, stderr: "" });
    expect(text.stdout).toMatch(/^Noted\. End your turn now/);
    const again = await project.overseer(["task", "close", id, "--reason", "made it", "--json"], { env });
    expect(again.data<object>()).toMatchObject({
      task: { id, status: "queued", reason: null },
      queued: [],
      isAnnounced: true,
    });
    expect(await show(dependant.id)).toMatchObject({ status: "todo" });
    await project.open(async ({ ledger }) => {
      expect(await ledger.openActions("complete")).toMatchObject([
        { subject: "ada", state: "planned", payload: { reason: "made it" } },
      ]);
    });
  });

  test("by anybody else is refused while its worker lives, and by the worker once it is closed", async () => {
    const { id } = await create("Gone");
    const env = { OVERSEER_TOKEN: await project.register({ name: "ada", taskId: id }) };
    const early = await project.overseer(["task", "close", id, "--reason", "not needed", "--json"]);
    expect(early.error()).toMatchObject({ code: "task_taken", message: `ada works on ${id}` });
    await project.open(({ ledger }) => ledger.closeTask(id, { reason: "landed", actor: "human", at: 1 }));
    const late = await project.overseer(["task", "close", id, "--reason", "made", "--json"], { env });
    expect(late.error()).toMatchObject({ code: "task_closed", hint: "end your turn" });
    await project.open(async ({ ledger }) => {
      expect(await ledger.openActions("complete")).toEqual([]);
    });
  });

  test("two that close at once close it once", async () => {
    const { id } = await create("Contested");
    const reasons = ["one", "two", "three"];
    const answers = await Promise.all(reasons.map((reason) => task(["close", id, "--reason", reason])));
    const won = reasons.filter((_, at) => answers[at]?.exitCode === 0);
    expect(won).toHaveLength(1);
    expect((await show(id)).reason).toBe(won[0] ?? "");
  });
});

describe("task list", () => {
  test("shows open ones, the most urgent first; --all and --status the others", async () => {
    await create("normal");
    await create("low", "--priority", "low");
    await create("urgent", "--priority", "urgent");
    const done = await create("done", "--priority", "urgent");
    await task(["close", done.id, "--reason", "x"]);
    expect(await titles("list")).toEqual(["urgent", "normal", "low"]);
    expect(await titles("list", "--all")).toEqual(["urgent", "normal", "low", "done"]);
    expect(await titles("list", "--status", "done")).toEqual(["done"]);
    expect(await titles("list", "--status", "todo")).toEqual([]);
    expect(await titles("list", "--limit", "1")).toEqual(["urgent"]);
  });

  test("tells a person what to do when there is nothing", async () => {
    expect((await project.overseer(["task", "list"])).stdout).toContain("overseer task create");
    expect((await project.overseer(["task", "ready"])).stdout).toContain("Nothing is ready");
  });
});

describe("task show", () => {
  test("shows the facts there are and the body", async () => {
    const { id } = await create("Facts", "--body", "The text.", "--files", "a,b", "--tag", "x");
    await task(["close", id, "--reason", "made"]);
    const { stdout } = await project.overseer(["task", "show", id]);
    expect(stdout).toMatch(new RegExp(`^${id} {2}Facts\nstatus {6}done: made\n`));
    expect(stdout).toMatch(/^files {7}a, b$/m);
    expect(stdout).toMatch(/\n\nThe text\.\n$/);
    expect(stdout).not.toContain("depends on");
  });

  test("says who works on it", async () => {
    const { id } = await create("Work");
    await project.register({ name: "ada", taskId: id });
    expect((await project.overseer(["task", "show", id])).stdout).toMatch(/^worker {6}ada \(booting\)$/m);
    expect((await task(["show", id])).data<{ worker: unknown }>().worker).toEqual({
      name: "ada",
      state: "booting",
    });
  });

  test("an id that is only begun is told what it may go on with", async () => {
    const { id } = await create("Something");
    const answer = await task(["show", id.slice(0, 5)]);
    expect(answer.exitCode).toBe(64);
    expect(answer.error()).toEqual({
      code: "task_unknown",
      message: `there is no task "${id.slice(0, 5)}"`,
      hint: `did you mean ${id}?`,
    });
    expect((await task(["close", "t-none", "--reason", "x"])).error().code).toBe("task_unknown");
  });
});

describe("odd text", () => {
  const odd = [
    "-rf",
    "../x",
    "a b",
    "$(touch x)",
    "`touch x`",
    "a;touch x",
    "x".repeat(300),
    "a..b",
    "a.lock",
    ".a",
    "",
  ];

  test("as an id is refused before anything happens, and nothing is executed or created", async () => {
    const before = snapshot(project.path, { except: isBesideDatabase });
    for (const id of odd) {
      for (const args of [
        ["show", "--", id],
        ["close", "--reason", "x", "--", id],
      ]) {
        const refused = await project.overseer(["task", ...args]);
        expect(refused.exitCode).toBe(64);
        expect(refused.stdout).toBe("");
        expect(refused.stderr.length).toBeLessThan(300);
      }
      if (id !== "") expect((await task(["create", "x", `--depends=${id}`])).exitCode).toBe(64);
    }
    expect((await project.overseer(["task", "show", "-rf"])).stderr).toContain("unknown option '-rf'");
    expect(snapshot(project.path, { except: isBesideDatabase })).toEqual(before);
  });

  test("as a title, body, file or tag is kept as it is and never executed", async () => {
    const files = snapshot(project.path, { except: (path) => path.startsWith(".overseer") });
    for (const text of odd.filter((word) => word !== "" && word.length <= 200)) {
      const args = ["create", "--body", text, `--files=${text}`, "--tag", text, "--", text];
      const made = (
        await project.overseer(["task", ...args.slice(0, -2), "--json", ...args.slice(-2)])
      ).data<{
        task: Record<string, unknown>;
      }>();
      expect(made.task).toMatchObject({ title: text, body: text, tags: [text], files: [text] });
    }
    expect(snapshot(project.path, { except: (path) => path.startsWith(".overseer") })).toEqual(files);
  });

  test("with control characters does not reach the terminal raw", async () => {
    const text = "a\u001b[2Jb\u009b1mc\u202e";
    const { id } = await create(text, "--body", text, "--files", text, "--tag", text);
    await project.register({ name: "ada", taskId: id, fileScope: [text] });
    expect((await project.overseer(["task", "create", text])).stdout).not.toMatch(UNPRINTABLE);
    const shown = [["list"], ["ready"], ["show", id], ["close", id, "--reason", text], ["show", id]];
    for (const args of shown)
      expect((await project.overseer(["task", ...args])).stdout).not.toMatch(UNPRINTABLE);
    const others = [["events"], ["prime"], ["prime", "--agent", "ada"], ["status"]];
    for (const args of others) expect((await project.overseer(args)).stdout).not.toMatch(UNPRINTABLE);
  });
});
