import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type GuardFacts, renderFacts } from "../src/domain/guard-facts.ts";
import { agentFiles } from "../src/effects/paths.ts";
import { type StandIn, type TestProject, testProject, type Worker } from "./support/project.ts";

interface Post extends AsyncDisposable {
  at: TestProject;
  ada: Worker;
  claude: StandIn;
  worktree: string;
  guardFile: string;
  /** What the hook answers to a tool call: the reason it is denied for, or null. */
  asked(tool: string, input: object, extra?: object): Promise<string | null>;
}

/** A worker with a worktree and its rules, as sling makes them, and no claude. */
async function post(facts: Partial<GuardFacts> = {}): Promise<Post> {
  const at = await testProject();
  const worktree = join(at.paths.worktrees, "ada");
  at.repo.git("worktree", "add", "--quiet", "-b", "overseer/ada/t-1", worktree);
  const ada = await at.worker("ada", { worktree });
  const guardFile = agentFiles(at.paths, "ada").guard;
  mkdirSync(dirname(guardFile), { recursive: true });
  const known: GuardFacts = {
    name: "ada",
    capability: "builder",
    parent: "orchestrator",
    root: at.root,
    worktree,
    branch: "overseer/ada/t-1",
    canonicalBranch: "main",
    fileScope: [],
    isReadOnly: false,
    canSpawn: false,
    ours: [".claude/CLAUDE.md", ".claude/.gitignore"],
    ...facts,
  };
  writeFileSync(guardFile, renderFacts(known));
  const claude = at.claude(ada);
  return {
    at,
    ada,
    claude,
    worktree,
    guardFile,
    async asked(tool, input, extra = {}) {
      const payload = { tool_name: tool, tool_input: input, cwd: worktree, tool_use_id: "toolu_1", ...extra };
      const { exitCode, stdout, stderr } = await claude.fire("PreToolUse", payload);
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      if (stdout === "") return null;
      const { hookSpecificOutput: said } = JSON.parse(stdout);
      expect(said).toMatchObject({ hookEventName: "PreToolUse", permissionDecision: "deny" });
      return said.permissionDecisionReason;
    },
    [Symbol.asyncDispose]: () => at[Symbol.asyncDispose](),
  };
}

test("a path is judged by where it leads", async () => {
  await using here = await post({ fileScope: ["src", "link-in"] });
  const { at, worktree, asked } = here;
  mkdirSync(join(worktree, "src/deep/er/est"), { recursive: true });
  mkdirSync(join(at.scratch, "elsewhere/deep"), { recursive: true });
  symlinkSync(join(at.scratch, "elsewhere"), join(worktree, "src/out"));
  symlinkSync(join(at.scratch, "not-there-yet.txt"), join(worktree, "src/dangling"));
  symlinkSync(join(at.root, "README.md"), join(worktree, "src/readme"));
  symlinkSync("deep", join(worktree, "src/in"));
  symlinkSync("deep/er/est", join(worktree, "src/deepest"));
  symlinkSync("round", join(worktree, "src/round"));
  symlinkSync(join(worktree, ".git"), join(worktree, "src/git"));
  const write = (path: string) => asked("Write", { file_path: path, content: "x" });

  for (const path of ["src/a.ts", "src/in/a.ts", `${worktree}/src/deepest/a.ts`, "src/deep/../b.ts"]) {
    expect({ path, denied: await write(path) }).toEqual({ path, denied: null });
  }
  expect(await write("src/out/a.ts")).toContain(`${at.scratch}/elsewhere/a.ts is outside of your worktree`);
  expect(await write("src/dangling")).toContain("not-there-yet.txt is outside of your worktree");
  expect(await write("src/readme")).toContain(`${at.root}/README.md is in the main checkout`);
  expect(await write("../../../README.md")).toContain(`Your copy is ${worktree}/README.md`);
  expect(await write("src/out/../../x")).not.toBeNull();
  // A program that takes the dots away first writes beside the worktree here.
  expect(await write("src/deepest/../../../x")).toContain("is in the worktree of another worker");
  expect(await write("src/round")).toContain("circle of links");
  expect(await write("src/git")).toContain(".git is overseer's or git's own");
  expect(await write(".claude/CLAUDE.md")).toContain("holds your orders");
  expect(await write(`${at.root}/.overseer/config.yaml`)).toContain("overseer's or git's own");
  expect(await write("docs/a.md")).toContain("docs/a.md is not among your files (src, link-in)");
  expect(await asked("Edit", { file_path: "src/out/a.ts" })).not.toBeNull();
  expect(await asked("NotebookEdit", { notebook_path: "src/out/a.ipynb" })).not.toBeNull();
  expect(await asked("Read", { file_path: "src/out/a.ts" })).toBeNull();
});

test("a command is judged in the folder where it runs, and its links are followed", async () => {
  await using here = await post();
  const { at, worktree, asked } = here;
  mkdirSync(join(worktree, "src"));
  mkdirSync(join(at.root, "node_modules"));
  symlinkSync(join(at.root, "node_modules"), join(worktree, "node_modules"));
  symlinkSync(at.root, join(worktree, "main"));
  const bash = (command: string, extra?: object) => asked("Bash", { command }, extra);
  // The link goes, what it leads to stays.
  expect(await bash("rm -rf node_modules")).toBeNull();
  expect(await bash("rm -rf node_modules/*")).toContain("in the main checkout");
  expect(await bash("rm -rf ../dist", { cwd: join(worktree, "src") })).toBeNull();
  expect(await bash("rm -rf ../dist")).not.toBeNull();
  expect(await bash("git -C main commit -am x")).toContain("git commit would change another checkout");
  expect(await bash("cd main && git reset --hard")).not.toBeNull();
  expect(await bash("npm test && git commit -am 'git push'")).toBeNull();
  expect(await bash("git commit -am x && git push")).toContain("A worker does not push");
});

test("what a subagent does is judged as well", async () => {
  await using here = await post({ isReadOnly: true, capability: "scout" });
  const { at, asked } = here;
  const byChild = { agent_id: "sub-1" };
  expect(await asked("Write", { file_path: "a.ts" }, byChild)).toContain(
    "You are a scout: you change no files",
  );
  expect(await asked("Bash", { command: "git push" }, byChild)).toContain("A worker does not push");
  const events = await at.project.ledger.listEvents({ type: "guard", limit: 5 });
  expect(events.map(({ data }) => data.subagent)).toEqual(["sub-1", "sub-1"]);
});

test("without rules nothing is written, and everything else goes on", async () => {
  await using here = await post();
  const { guardFile, asked, at } = here;
  const damages = ["", "{", "null", "[]", '{"name":"ada"}', renderFacts({} as GuardFacts), '{"fileScope":3}'];
  for (const text of damages) {
    writeFileSync(guardFile, text);
    const denied = await asked("Write", { file_path: "src/a.ts" });
    expect({ text, denied }).toEqual({ text, denied: expect.stringContaining("overseer doctor") });
    expect(await asked("Bash", { command: "rm -rf /" })).toBeNull();
    expect(await asked("Read", { file_path: "/etc/hosts" })).toBeNull();
  }
  const { stdout } = await at.overseer(["doctor", "--json"]);
  const findings: { check: string }[] = JSON.parse(stdout).data.findings;
  expect(findings.find(({ check }) => check === "guards")).toMatchObject({
    verdict: "broken",
    hint: "overseer stop ada, overseer resume ada",
  });
  const [event] = await at.project.ledger.listEvents({ type: "guard.denied", limit: 1 });
  expect(event).toMatchObject({ agent: "ada", data: { rule: "blind", tool: "Write", target: "src/a.ts" } });
});

test("a denial is told in the events and the logs, without secrets, and no tool is in flight after it", async () => {
  await using here = await post();
  const { at, ada, asked } = here;
  const secret = `ghp_${"a1B2".repeat(9)}`;
  await asked("Bash", { command: `TOKEN=${secret} git push https://kim:${secret}@example.com/x.git` });
  const { stdout } = await at.overseer(["events", "--type", "guard.denied", "--json"]);
  const { events } = JSON.parse(stdout).data;
  expect(events).toMatchObject([
    { type: "guard.denied", agent: "ada", sessionId: ada.session.id, data: { rule: "push", tool: "Bash" } },
  ]);
  expect(events[0].data.target).toContain("git push https://");
  expect(events[0].data.reason).toContain("A worker does not push");
  const log = at.log(`${ada.session.logFolder}/session.log`).join("\n");
  expect(log).toMatch(/ denied rule="push" tool="Bash" target="TOKEN=\[redacted\]+ git push/);
  for (const text of [stdout, log, at.log(`${ada.session.logFolder}/events.ndjson`).join("\n")]) {
    expect(text).not.toContain(secret);
  }
  expect(await at.session("ada")).toMatchObject({ toolsInFlight: 0, toolName: null });
  await asked("Bash", { command: "npm test" });
  expect(await at.session("ada")).toMatchObject({ toolsInFlight: 1, toolName: "Bash" });
});

test("a ledger that is locked, damaged or gone does not let a write through", async () => {
  await using here = await post();
  const { at, asked, claude } = here;
  const call = { tool_name: "Write", tool_input: { file_path: "/etc/hosts" } };
  at.close();
  {
    using db = new Database(at.paths.ledger);
    db.run("BEGIN EXCLUSIVE");
    const hook = claude.start("PreToolUse", "pipe", call);
    if (typeof hook.stdout === "number" || !hook.stdout) throw new Error("the hook's output is not read");
    const said = await hook.stdout.getReader().read();
    expect(new TextDecoder().decode(said.value)).toContain("outside of your worktree");
    expect(hook.exitCode).toBeNull();
    db.run("ROLLBACK");
    expect(await hook.exited).toBe(0);
  }
  writeFileSync(at.paths.ledger, "this is not a database, and long enough to be seen as none ".repeat(20));
  expect(await asked("Write", call.tool_input)).toContain("outside of your worktree");
});

test("overseer log does what the hook does, and the orchestrator is not judged", async () => {
  await using here = await post();
  const { at, ada } = here;
  const input = JSON.stringify({ tool_name: "Bash", tool_input: { command: "git push" } });
  const told = await at.overseer(["log", "tool-start"], { input, env: ada.env });
  expect(told.stdout).toContain('"permissionDecision":"deny"');
  const own = at.claude(null);
  const payload = { tool_name: "Write", tool_input: { file_path: "/etc/hosts" } };
  expect(await own.fire("PreToolUse", payload)).toMatchObject({ exitCode: 0, stdout: "" });
});
