import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { processMark } from "../src/effects/processes.ts";
import { hashToken } from "../src/effects/tokens.ts";
import { overseer, type TempProject, tempProject } from "./support/cli.ts";

let project: TempProject;
let token: string;

beforeEach(async () => {
  project = await tempProject();
  token = await project.register({ name: "ada" });
});
afterEach(() => project.remove());

async function sender(env: Record<string, string>, cwd = project.path): Promise<string> {
  const args = ["mail", "send", "--to", "orchestrator", "--subject", "who am I", "--json"];
  const answer = await overseer(cwd, args, { env });
  return answer.data<{ messages: { from: string }[] }>().messages[0]?.from ?? "";
}

/** What a command that says who its caller is answers to somebody who must not pass for a person. */
async function refusal(env: Record<string, string>, cwd = project.path): Promise<string> {
  const [send, status, check] = await Promise.all(
    [["mail", "send", "--to", "human", "--subject", "x"], ["status"], ["mail", "check"]].map((args) =>
      overseer(cwd, [...args, "--json"], { env }),
    ),
  );
  const codes = new Set([send, status, check].map((answer) => answer?.error().code));
  expect(codes.size).toBe(1);
  expect(send?.exitCode).toBe(1);
  return [...codes][0] ?? "";
}

/** Ends ada as Claude Code does, and gives the name to somebody new. */
async function replaceAda(): Promise<string> {
  const stdin = JSON.stringify({ session_id: "c-ada", reason: "exit" });
  await project.overseer(["log", "session-end", "--agent", "ada"], { stdin });
  return await project.register({ name: "ada" });
}

describe("a worker is known by its token", () => {
  test("and acts as itself", async () => {
    expect(await sender({ OVERSEER_TOKEN: token })).toBe("ada");
    expect(await sender({ OVERSEER_TOKEN: token, CLAUDECODE: "1", OVERSEER_AGENT_NAME: "ada" })).toBe("ada");
  });

  test("from anywhere, as long as the project is known", async () => {
    const worktree = `${project.path}/.overseer/worktrees/ada`;
    project.git("worktree", "add", "--quiet", worktree);
    expect(await sender({ OVERSEER_TOKEN: token }, worktree)).toBe("ada");
    expect(await sender({ OVERSEER_TOKEN: token, OVERSEER_ROOT: project.path }, "/")).toBe("ada");
  });

  test("its own name may be given, another's is refused", async () => {
    const env = { OVERSEER_TOKEN: token };
    await project.register({ name: "bob" });
    const mine = await project.overseer(["mail", "check", "--agent", "ada", "--json"], { env });
    expect(mine.exitCode).toBe(0);
    const commands = [
      ["mail", "check", "--agent", "bob"],
      ["mail", "wait", "--agent", "bob", "--timeout", "1ms"],
      ["mail", "send", "--from", "bob", "--to", "human", "--subject", "x"],
      ["mail", "send", "--from", "human", "--to", "bob", "--subject", "x"],
      ["prime", "--agent", "bob"],
      ["log", "turn-end", "--agent", "bob"],
    ];
    for (const args of commands) {
      const refused = await project.overseer([...args, "--json"], { env, stdin: "{}" });
      expect(refused.exitCode).toBe(1);
      expect(refused.error()).toMatchObject({ code: "not_you" });
      expect(refused.error().message).toMatch(/^you are ada, not "(bob|human)"$/);
    }
    const events = await project.overseer(["events", "--type", "mail.sent", "--json"]);
    expect(events.data<{ events: unknown[] }>().events).toEqual([]);
  });

  test("closes its own task and no other", async () => {
    const create = (title: string) => project.overseer(["task", "create", title, "--json"]);
    const own = (await create("own")).data<{ task: { id: string } }>().task.id;
    const other = (await create("other")).data<{ task: { id: string } }>().task.id;
    const env = { OVERSEER_TOKEN: await project.register({ name: "bob", taskId: own }) };
    const refused = await project.overseer(["task", "close", other, "--reason", "x", "--json"], { env });
    expect(refused.error()).toMatchObject({ code: "not_you" });
    expect(refused.error().hint).toContain(own);
  });

  test("a token that nobody has is refused, whatever else is said", async () => {
    expect(await refusal({ OVERSEER_TOKEN: "nonsense" })).toBe("token_unknown");
    expect(await refusal({ OVERSEER_TOKEN: hashToken(token) })).toBe("token_unknown");
    expect(await refusal({ OVERSEER_TOKEN: `${token} `, CLAUDECODE: "1" })).toBe("token_unknown");
  });

  test("the token of an older incarnation is refused, the newer one's works", async () => {
    const newer = await replaceAda();
    expect(await refusal({ OVERSEER_TOKEN: token })).toBe("not_you");
    expect(await sender({ OVERSEER_TOKEN: newer })).toBe("ada");
  });

  test("a late hook of an older incarnation does not touch the newer one", async () => {
    await replaceAda();
    const states = async () =>
      (await project.overseer(["status", "--json"])).data<{ agents: { state: string }[] }>().agents;
    const before = await states();
    const env = { OVERSEER_TOKEN: token };
    const late = await project.overseer(["log", "turn-end", "--json"], {
      env,
      stdin: '{"session_id":"c-ada"}',
    });
    expect(late.error().code).toBe("not_you");
    expect(await states()).toEqual(before);
  });

  test("only the hash of a token is on the disk", async () => {
    await sender({ OVERSEER_TOKEN: token });
    const found = Bun.spawnSync(["grep", "-rla", token, project.path]).stdout.toString();
    expect(found).toBe("");
  });
});

describe("without a token, whoever looks like a worker is refused", () => {
  test("by the Claude session of a worker", async () => {
    const stdin = JSON.stringify({ session_id: "c-ada", source: "startup" });
    await project.overseer(["log", "session-start", "--agent", "ada"], { stdin });
    expect(await refusal({ CLAUDE_CODE_SESSION_ID: "c-ada", CLAUDECODE: "1" })).toBe("worker_without_token");
    expect(await sender({ CLAUDE_CODE_SESSION_ID: "c-other", CLAUDECODE: "1" })).toBe("orchestrator");
  });

  test("by a working directory in a worktree, also one that nobody is registered for", async () => {
    const worktree = `${project.path}/.overseer/worktrees/eve`;
    project.git("worktree", "add", "--quiet", worktree);
    mkdirSync(`${worktree}/deep`);
    expect(await refusal({}, worktree)).toBe("worker_without_token");
    expect(await refusal({}, `${worktree}/deep`)).toBe("worker_without_token");
    expect(await refusal({ CLAUDECODE: "1" }, worktree)).toBe("worker_without_token");
  });

  test("by a worker's own worktree that lies elsewhere, but not by its neighbour", async () => {
    const worktree = `${project.path}-elsewhere`;
    project.git("worktree", "add", "--quiet", worktree);
    project.git("worktree", "add", "--quiet", `${worktree}-too`);
    await project.register({ name: "eve", worktree });
    try {
      expect(await refusal({}, worktree)).toBe("worker_without_token");
      expect(await sender({}, `${worktree}-too`)).toBe("human");
    } finally {
      project.git("worktree", "remove", worktree);
      project.git("worktree", "remove", `${worktree}-too`);
    }
  });

  test("by the name of one in the environment", async () => {
    expect(await refusal({ OVERSEER_AGENT_NAME: "ada" })).toBe("worker_without_token");
    expect(await refusal({ OVERSEER_AGENT_NAME: "ada", OVERSEER_TOKEN: "" })).toBe("worker_without_token");
  });

  /** A worker whose recorded process is the one of this test, above every command it runs. */
  async function launchedAs(name: string, mark: string | null): Promise<string> {
    const own = await project.register({ name });
    await project.open(async ({ ledger, clock }) => {
      const sessionId = (await ledger.currentSession(name))?.id ?? "";
      const launched = {
        tmuxSession: `overseer-${name}`,
        paneId: "%1",
        pid: process.pid,
        mark,
        claudeSessionId: null,
      };
      const event = { at: clock.now(), type: "session.launched", agent: name, sessionId } as const;
      await ledger.recordLaunch(sessionId, launched, event);
    });
    return own;
  }

  test("by a worker's process above it", async () => {
    const own = await launchedAs("eve", await processMark(process.pid));
    expect(await refusal({})).toBe("worker_without_token");
    expect(await sender({ OVERSEER_TOKEN: own })).toBe("eve");
  });

  test("but not by a process that only has the number of a worker's", async () => {
    await launchedAs("eve", `${process.pid}:1`);
    await launchedAs("kim", null);
    expect(await sender({})).toBe("human");
  });

  test("and told what to do", async () => {
    const { stderr } = await project.overseer(["status"], { env: { OVERSEER_AGENT_NAME: "ada" } });
    expect(stderr).toMatch(/ada's session, but OVERSEER_TOKEN is missing\n {2}next: /);
    expect(stderr).toContain(project.path);
  });
});

describe("everybody else", () => {
  test("is the orchestrator inside Claude Code, and a person outside of it", async () => {
    expect(await sender({ CLAUDECODE: "1" })).toBe("orchestrator");
    expect(await sender({})).toBe("human");
  });

  test("reads their own mail by default", async () => {
    await project.overseer(["mail", "send", "--to", "orchestrator,human", "--subject", "x"]);
    const left = async (env: Record<string, string>) =>
      (await project.overseer(["status", "--json"], { env })).data<{ mail: { unread: number } }>().mail
        .unread;
    await project.overseer(["mail", "check"], { env: { CLAUDECODE: "1" } });
    expect(await left({ CLAUDECODE: "1" })).toBe(0);
    expect(await left({})).toBe(1);
  });

  test("from a subfolder or a linked worktree of the user's own, the project is found", async () => {
    mkdirSync(`${project.path}/src/deep`, { recursive: true });
    expect(await sender({}, `${project.path}/src/deep`)).toBe("human");
  });
});
