import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "yaml";
import { isAlive } from "../src/effects/processes.ts";
import { OVERSEER } from "./support/cli.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { tempFolder } from "./support/temp.ts";
import { until } from "./support/until.ts";

const ELSEWHERE = `overseer task close "$(overseer prime | sed -n 's/^## Your task: //p')" --reason x --json`;
/** As a worker types it: the last part of its branch is its task. */
const CLOSE = 'overseer task close "$(basename "$(git branch --show-current)")" --reason';

function times(text: string, words: string): number {
  return text.split(words).length - 1;
}

/** When the last step of a completion is done: its process and its pane are gone. */
async function untilLeft(fleet: Fleet, name: string) {
  const session = await fleet.untilState(name, "completed");
  const hasLeft = async () => !(await isAlive(session.mark ?? "")) && fleet.panes().length === 0;
  await until(`${name} has left its pane`, hasLeft, { timeoutMs: 30_000 });
  return session;
}

async function mailTo(fleet: Fleet, name: string) {
  const answer = await fleet.overseer(["mail", "list", "--to", name, "--json"]);
  return answer.data<{ messages: { from: string; type: string; subject: string; body: string }[] }>()
    .messages;
}

async function taskStatus(fleet: Fleet, id: string): Promise<string> {
  const answer = await fleet.overseer(["task", "show", id, "--json"]);
  return answer.data<{ task: { status: string } }>().task.status;
}

test("the first request shows the model its orders, its role and its assignment, each once", async () => {
  await using fleet = await startFleet({
    files: { "README.md": "# test\n", "docs/parser.md": "SPEC: numbers may have a sign.\n" },
    config: "project:\n  checks:\n    - npm run check-everything\n    - npm run lint\n",
    tell: (model) => model.whenPrompt("You are ada").says("Done."),
  });
  const text = "Write the parser\nBODY: it reads numbers.";
  const where = ["--files", "src/parser,docs/*.md", "--spec", "docs/parser.md"];
  const { taskId, branch } = await fleet.sling("ada", text, ...where);
  await fleet.untilState("ada", "idle");
  fleet.model.verify();

  const [first] = fleet.model.requests;
  const seen = first?.seen ?? "";
  const [instructions = "", assignment = ""] = seen.split("SessionStart:startup hook success:");
  // The role is the system's, the orders and the prompt are the user's.
  const system = (first?.body.system ?? []).map((block) => block.text ?? "").join("\n");
  expect(times(system, "# Builder\n")).toBe(1);
  expect(system).not.toContain("# Your assignment");
  for (const once of [
    "# Builder\n",
    "# Your assignment\n",
    "SPEC: numbers may have a sign.",
    "## Its specification: docs/parser.md",
    "- `npm run check-everything`\n- `npm run lint`\n",
    "- `src/parser`\n- `docs/*.md`\n",
    "you work for human, your parent",
    `Your branch is \`${branch}\`, made from \`main\``,
    `\`overseer task close ${taskId} --reason`,
    `You are ada, a builder. Your task is ${taskId}: Write the parser.`,
    "SessionStart:startup hook success: # overseer\nYou are ada, a builder on branch",
  ]) {
    expect({ once, times: times(seen, once) }).toEqual({ once, times: 1 });
  }
  // The overlay in full and the hook in short: both name the task, neither does it twice.
  for (const part of [instructions, assignment]) {
    expect(times(part, `## Your task: ${taskId}\n`)).toBe(1);
    expect(times(part, "BODY: it reads numbers.")).toBe(1);
  }
  expect(assignment).toContain(`- finished: overseer task close ${taskId} --reason`);
  expect(assignment).toContain("Your files: src/parser, docs/*.md");
  // What tells the orchestrator its part stands in the main checkout, and is not for workers.
  expect(seen).not.toContain("You are the orchestrator");
  expect(fleet.gitIn("ada", "status", "--porcelain")).toBe("");
});

test("a finished worker hands in its commit, tells its parent once, and is remembered by its name", async () => {
  const dirty = `mkdir -p src && echo one > src/a.txt && echo two > notes.txt && ${CLOSE} "too early"`;
  const clean = `git add -A && git commit -qm work && ${CLOSE} "Numbers are read now."`;
  await using fleet = await startFleet({
    tell(model) {
      model
        .whenPrompt("Write the parser")
        .uses("Bash", { command: dirty })
        .expects(/uncommitted changes in notes\.txt, src\/a\.txt/)
        .expects(/commit what belongs to the task/)
        .expectsNot("too early.")
        .uses("Bash", { command: clean })
        .says("All done.");
      model
        .whenPrompt("Write the printer")
        .expects("## What ada has done before", { times: 1 })
        .expects(/- t-\w+: Write the parser\. Numbers are read now\./, { times: 1 })
        .says("Done.");
    },
  });
  const { taskId, branch, pid } = await fleet.sling("ada", "Write the parser");
  const session = await untilLeft(fleet, "ada");
  const head = fleet.gitIn("ada", "rev-parse", "HEAD");
  expect(session).toMatchObject({ cause: "it closed its task", reason: null, pid });

  const entries = await fleet.open((project) => project.ledger.mergeEntries({ taskId }));
  expect(entries).toEqual([
    expect.objectContaining({
      status: "pending",
      branch,
      commit: head,
      into: "main",
      files: ["notes.txt", "src/a.txt"],
      sessionId: session.id,
    }),
  ]);
  expect(await taskStatus(fleet, taskId)).toBe("in_progress");
  expect(fleet.repo.git("rev-parse", "main")).not.toBe(head);

  const [mail, ...more] = await mailTo(fleet, "human");
  expect(more).toEqual([]);
  expect(mail).toMatchObject({ from: "ada", type: "result", subject: `ada has finished ${taskId}` });
  expect(mail?.body).toContain("Numbers are read now.");
  expect(mail?.body).toContain(branch);

  const folder = join(fleet.root, ".overseer/agents/ada");
  const identity = () => parse(readFileSync(join(folder, "identity.yaml"), "utf8"));
  expect(identity()).toMatchObject({
    name: "ada",
    capability: "builder",
    sessionsCompleted: 1,
    recentTasks: [{ taskId, title: "Write the parser", summary: "Numbers are read now.", branch }],
  });
  const history = readFileSync(join(folder, "work-history.md"), "utf8");
  expect(history).toMatch(new RegExp(`## \\S+ ${taskId}: Write the parser\n\nNumbers are read now\\.\n`));
  expect(history).toContain("- src/a.txt\n");

  // Not merged yet: the name is free, its worktree is not.
  const refused = await fleet.overseer(slinging("ada", "Write the printer"));
  expect(refused.error()).toMatchObject({ code: "worktree_unmerged" });
  expect(refused.error().hint).toContain("overseer worktree clean ada");
  expect(fleet.gitIn("ada", "rev-parse", "HEAD")).toBe(head);

  fleet.repo.git("merge", "--quiet", branch);
  const next = await fleet.sling("ada", "Write the printer");
  await fleet.untilState("ada", "idle");
  fleet.model.verify();
  expect(next.branch).not.toBe(branch);
  expect(fleet.repo.git("branch", "--list", "overseer/*", "--format=%(refname:short)")).toBe(next.branch);
  expect(fleet.gitIn("ada", "rev-parse", "HEAD")).toBe(head);
  expect(identity()).toMatchObject({ sessionsCompleted: 1 });
});

function slinging(name: string, what: string, ...more: string[]): string[] {
  return ["sling", what, "--name", name, "--capability", "builder", "--json", ...more];
}

test("whoever has nothing to merge has its task done at once", async () => {
  await using fleet = await startFleet({
    tell: (model) =>
      model
        .whenPrompt("You are sam")
        .expects("# Scout\n", { times: 1 })
        .uses("Bash", { command: `${CLOSE} "There are three parsers."` })
        .says("That is all."),
  });
  const answer = await fleet.overseer(
    ["sling", "Count the parsers", "--name", "sam", "--capability", "scout", "--json"],
    { env: { CLAUDECODE: "1" } },
  );
  const { agent } = answer.data<{ agent: { taskId: string; parent: string } }>();
  expect(agent.parent).toBe("orchestrator");
  await untilLeft(fleet, "sam");
  fleet.model.verify();
  expect(await taskStatus(fleet, agent.taskId)).toBe("done");
  expect(await fleet.open((project) => project.ledger.mergeEntries({ taskId: agent.taskId }))).toEqual([]);
  expect(await mailTo(fleet, "human")).toEqual([]);
  const mail = await mailTo(fleet, "orchestrator");
  expect(mail).toHaveLength(1);
  expect(mail[0]).toMatchObject({ from: "sam", type: "result" });
  expect(mail[0]?.body).toContain("There are three parsers.\n\nIt committed nothing");
});

test("a worker that has committed beside its branch cannot close before it has brought that home", async () => {
  using outside = tempFolder();
  const commit = (file: string) => `echo ${file} > ${file} && git add -A && git commit -qm ${file}`;
  const said = (name: string) => join(outside.path, `${name}.json`);
  await using fleet = await startFleet({
    tell: (model) =>
      model
        .whenPrompt("You are ada")
        .uses("Bash", { command: `git branch --show-current > ${said("branch")}` })
        .uses("Bash", {
          command: `git switch -qc feature && ${commit("one")}; ${ELSEWHERE} > ${said("other")}`,
        })
        .uses("Bash", {
          command: `git switch -q --detach && ${commit("two")}; ${ELSEWHERE} > ${said("detached")}`,
        })
        .uses("Bash", {
          command: `tip=$(git rev-parse HEAD); git switch -q "$(cat ${said("branch")})" && git merge -q $tip`,
        })
        .uses("Bash", { command: `${CLOSE} "Both are here."` })
        .says("Bye."),
  });
  const { taskId, branch } = await fleet.sling("ada", "Write the parser");
  await untilLeft(fleet, "ada");
  fleet.model.verify();
  for (const where of ["other", "detached"]) {
    const { ok, error } = JSON.parse(readFileSync(said(where), "utf8"));
    expect({ where, ok }).toEqual({ where, ok: false });
    expect(error.hint).toContain(branch);
  }
  const entries = await fleet.open((project) => project.ledger.mergeEntries({ taskId }));
  expect(entries.map(({ files }) => files)).toEqual([["one", "two"]]);
});

test("mail that comes at the last moment is read before the worker goes", async () => {
  await using fleet = await startFleet({
    tell(model) {
      model
        .whenPrompt("You are ada")
        .uses("Bash", { command: `${CLOSE} "Nothing to do."` })
        .holds("closed")
        .says("Bye.");
      model.whenPrompt("One more thing").holds("told").says("Seen. Bye again.");
    },
  });
  await fleet.sling("ada", "Look around here");
  await fleet.model.untilHeld("closed");
  const send = ["mail", "send", "--to", "ada", "--subject", "One more thing", "--body", "Thank you."];
  expect((await fleet.overseer(send)).exitCode).toBe(0);
  fleet.model.release("closed");
  await fleet.model.untilHeld("told");
  const early = await fleet.overseer(["wait", "ada", "--timeout", "1s", "--json"]);
  expect(early.error().message).toContain("ada is working");
  fleet.model.release("told");
  await untilLeft(fleet, "ada");
  fleet.model.verify();
  const list = await fleet.overseer(["mail", "list", "--to", "ada", "--unread", "--json"]);
  expect(list.data<{ messages: unknown[] }>().messages).toEqual([]);
});

function environmentOf(pid: number): Record<string, string> {
  const pairs = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  return Object.fromEntries(pairs.map((pair) => [pair.split("=")[0], pair.slice(pair.indexOf("=") + 1)]));
}

/** Those that are gone while one looks have no command line any more. */
function commandLines(): string[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
    } catch {
      return [];
    }
  });
}

test("a worker has the caller's environment without what is the caller's own, and its token is nowhere else", async () => {
  await using fleet = await startFleet({
    tell: (model) => model.whenPrompt("You are ada").holds("gate").says("Done."),
  });
  const calling = {
    CLAUDECODE: "1",
    CLAUDE_CODE_SESSION_ID: "of-the-caller",
    CLAUDE_CODE_ENTRYPOINT: "cli",
    TMUX: "/nowhere/socket,1,0",
    TMUX_PANE: "%7",
    GIT_DIR: "/nonexistent",
    GIT_INDEX_FILE: "/nonexistent/index",
    OVERSEER_SOMETHING: "of the caller",
    MY_SETTING: "kept as it is; $HOME 'quoted' \n and more",
  };
  const answer = await fleet.overseer(slinging("ada", "Look around here"), { env: calling });
  const { pid } = answer.data<{ agent: { pid: number } }>().agent;
  await fleet.model.untilHeld("gate");

  const has = environmentOf(pid);
  const gone = Object.keys(calling).filter((name) => name !== "MY_SETTING");
  expect(gone.filter((name) => name in has)).toEqual([]);
  expect(has).toMatchObject({
    MY_SETTING: calling.MY_SETTING,
    HOME: fleet.home.path,
    ANTHROPIC_BASE_URL: fleet.model.url,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    OVERSEER_AGENT_NAME: "ada",
    OVERSEER_ROOT: fleet.root,
  });
  expect(has.PATH?.split(":")[0]).toBe(dirname(OVERSEER));

  const token = has.OVERSEER_TOKEN ?? "";
  expect(token.length).toBeGreaterThan(20);
  const lines = commandLines();
  expect(lines.filter((line) => line.includes("--session-id") && line.includes("You are ada"))).not.toEqual(
    [],
  );
  expect(lines.filter((line) => line.includes(token) || line.includes("MY_SETTING"))).toEqual([]);
  expect(fleet.tmux("show-environment", "-g")).toContain("PATH=");
  expect(fleet.tmux("show-environment", "-g")).not.toMatch(/TOKEN|API_KEY|MY_SETTING/);
  const files = readdirSync(join(fleet.root, ".overseer"), { recursive: true, withFileTypes: true });
  const written = files.filter((file) => file.isFile()).map((file) => join(file.parentPath, file.name));
  expect(written.filter((file) => readFileSync(file).includes(token))).toEqual([]);
  expect(written.filter((file) => file.includes("launch-"))).toEqual([]);
  fleet.model.release("gate");
  await fleet.untilState("ada", "idle");
});

test("a worker fetches and cannot push, not even through a script", async () => {
  using outside = tempFolder();
  const script = outside.write(
    "try.sh",
    `cd "$1" || exit 9
git fetch origin > "$0.fetch" 2>&1; echo $? >> "$0.fetch"
git push origin HEAD > "$0.push" 2>&1; echo $? >> "$0.push"
(cd / && bash -c "git -C '$1' push '$2' HEAD:refs/heads/stolen") > "$0.path" 2>&1; echo $? >> "$0.path"
command -v overseer > "$0.which"
git config user.name > "$0.name"
`,
  );
  const bare = join(outside.path, "bare.git");
  mkdirSync(bare);
  await using fleet = await startFleet({
    tell: (model) =>
      model
        .whenPrompt("You are ada")
        .uses("Bash", { command: `sh ${script} "$PWD" ${bare}` })
        .says("Done."),
  });
  fleet.repo.git("init", "--quiet", "--bare", bare);
  fleet.repo.git("remote", "add", "origin", bare);
  fleet.repo.git("push", "--quiet", "origin", "main");
  await fleet.sling("ada", "Push it somewhere");
  await fleet.untilState("ada", "idle");
  fleet.model.verify();
  const said = (what: string) => readFileSync(`${script}.${what}`, "utf8").trim();
  expect(said("fetch").split("\n").at(-1)).toBe("0");
  expect(fleet.repo.git("rev-parse", "origin/main")).toBe(fleet.repo.git("rev-parse", "main"));
  for (const push of ["push", "path"]) {
    expect(said(push).split("\n").at(-1)).toMatch(/^[1-9]/);
    expect(said(push)).toContain("a worker does not push. Commit to your branch");
  }
  expect(fleet.repo.git("-C", bare, "for-each-ref", "--format=%(refname)")).toBe("refs/heads/main");
  expect(said("which")).toBe(OVERSEER);
  expect(said("name")).toBe("Test");
  // It is the worker's environment that stops it: the person's own checkout pushes as ever.
  fleet.repo.git("push", "--quiet", "origin", "main:refs/heads/mine");
});
