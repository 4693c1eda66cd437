import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { COMMANDS, GROUPS } from "../src/cli/registry.ts";
import { HOOK_EVENTS, LOG_NAMES } from "../src/domain/hook-event.ts";
import { cleanEnvironment, OVERSEER, type TempProject, tempProject } from "./support/cli.ts";
import { tempFolder } from "./support/temp.ts";

let project: TempProject;
beforeEach(async () => {
  project = await tempProject();
});
afterEach(() => project.remove());

interface Event {
  type: string;
  agent: string;
  data: Record<string, unknown>;
}

async function events(agent: string): Promise<Event[]> {
  const answer = await project.overseer(["events", "--agent", agent, "--json"]);
  return answer.data<{ events: Event[] }>().events;
}

const PAYLOAD = JSON.stringify({
  session_id: "c-1",
  tool_name: "Bash",
  tool_input: { command: "git status" },
  source: "startup",
  reason: "exit",
});

describe("log", () => {
  test("both names of an event record the same", async () => {
    await project.register({ name: "ada" });
    expect(Object.values(LOG_NAMES).sort()).toEqual([...HOOK_EVENTS].sort());
    for (const [name, own] of Object.entries(LOG_NAMES)) {
      const before = (await events("ada")).length;
      for (const event of [name, own]) {
        const answer = await project.overseer(["log", event, "--agent", "ada"], { stdin: PAYLOAD });
        expect(answer).toMatchObject({ exitCode: 0, stderr: "" });
      }
      const [first, second, ...more] = (await events("ada")).slice(before);
      expect(more).toEqual([]);
      expect(first?.type).toBe(second?.type ?? "");
      expect(first?.data).toEqual(second?.data ?? {});
    }
  });

  test("moves the state and writes the session's logs", async () => {
    await project.register({ name: "ada" });
    const states: string[] = [];
    for (const event of ["session-start", "tool-start", "permission", "turn-end", "session-end"]) {
      await project.overseer(["log", event, "--agent", "ada"], { stdin: PAYLOAD });
      const { agents } = (await project.overseer(["status", "--json"])).data<{
        agents: { state: string }[];
      }>();
      states.push(agents[0]?.state ?? "");
    }
    expect(states).toEqual(["working", "working", "waiting", "idle", "stopped"]);
    const folder = `${project.path}/.overseer/logs/ada`;
    const [session = ""] = readdirSync(folder);
    expect(readdirSync(`${folder}/${session}`).sort()).toEqual([
      "events.ndjson",
      "session.log",
      "tools.ndjson",
    ]);
    expect(readFileSync(`${folder}/${session}/session.log`, "utf8")).toContain(
      "tool_started Bash git status",
    );
  });

  test("a worker needs no name: its token says who it is", async () => {
    const token = await project.register({ name: "ada" });
    await project.overseer(["log", "turn-end"], { stdin: PAYLOAD, env: { OVERSEER_TOKEN: token } });
    expect((await events("ada")).at(-1)?.type).toBe("session.turn_ended");
  });

  test("prints what the hook would print, also as JSON", async () => {
    await project.register({ name: "ada" });
    await project.overseer(["mail", "send", "--to", "ada", "--subject", "Hello", "--body", "there"]);
    const args = ["log", "UserPromptSubmit", "--agent", "ada", "--json"];
    const { output } = (await project.overseer(args, { stdin: PAYLOAD })).data<{ output: string }>();
    expect(output).toMatch(/^<overseer-mail .*\nthere\n<\/overseer-mail>\n$/);
    expect((await project.overseer(args.slice(0, -1), { stdin: PAYLOAD })).stdout).toBe("");
  });

  test("an event, an agent or a text that is not one is a usage error", async () => {
    await project.register({ name: "ada" });
    const failures: [string[], string, RegExp][] = [
      [["tool-strat"], PAYLOAD, /did you mean tool-start\?/],
      [["turn-end", "--agent", "adda"], PAYLOAD, /did you mean ada\?/],
      [["turn-end", "--agent", "ada"], "not JSON", /not a JSON object/],
      [["turn-end", "--agent", "ada"], "[]", /not a JSON object/],
      [["turn-end", "--agent", "ada"], "", /not a JSON object/],
    ];
    const before = await events("ada");
    for (const [args, stdin, says] of failures) {
      const answer = await project.overseer(["log", ...args], { stdin });
      expect(answer.exitCode).toBe(64);
      expect(answer.stderr).toMatch(says);
    }
    expect(await events("ada")).toEqual(before);
  });

  test("secrets in a tool call are not kept anywhere", async () => {
    await project.register({ name: "ada" });
    const secret = "hunter2hunter2";
    const tool_input = { command: `curl -H 'x: 1' --password ${secret}`, api_key: secret };
    const stdin = JSON.stringify({ session_id: "c-1", tool_name: "Bash", tool_input });
    for (const event of ["tool-start", "tool-end"]) {
      await project.overseer(["log", event, "--agent", "ada"], { stdin });
    }
    expect(Bun.spawnSync(["grep", "-rla", secret, `${project.path}/.overseer`]).stdout.toString()).toBe("");
  });
});

describe("completions", () => {
  const isInstalled = (shell: string) => Bun.which(shell) !== null;

  async function script(shell: string): Promise<string> {
    return (await project.overseer(["completions", shell])).stdout;
  }

  /** What bash itself offers after these words; the last one is being typed. */
  async function complete(...words: string[]): Promise<string[]> {
    using folder = tempFolder();
    const file = folder.write("overseer.bash", await script("bash"));
    const typed = words.map((word) => `'${word}'`).join(" ");
    const code = `set -u; source "$0"; COMP_WORDS=(overseer ${typed}); COMP_CWORD=${words.length}; _overseer; echo "\${COMPREPLY[@]-}"`;
    const { stdout, stderr } = Bun.spawnSync(["bash", "--norc", "-c", code, file], {
      cwd: project.path,
      env: cleanEnvironment({ PATH: `${dirname(OVERSEER)}:${process.env.PATH}` }),
    });
    expect(stderr.toString()).toBe("");
    return stdout.toString().trim().split(" ");
  }

  test("bash offers commands, the commands of a group, and the options of a command", async () => {
    expect((await complete("")).sort()).toEqual([...new Set(COMMANDS.map(({ path }) => path[0]))].sort());
    expect(await complete("st")).toEqual(["status", "stop"]);
    expect(await complete("stat")).toEqual(["status"]);
    for (const group of Object.keys(GROUPS)) {
      const own = COMMANDS.filter(({ path }) => path[0] === group).map(({ path }) => path[1] ?? "");
      expect((await complete(group, "")).sort()).toEqual(own.sort());
    }
    expect(await complete("mail", "se")).toEqual(["send"]);
    expect(await complete("mail", "send", "--su")).toEqual(["--subject"]);
    expect(await complete("mail", "send", "--to", "ada", "--pr")).toEqual(["--priority"]);
    expect(await complete("completions", "b")).toEqual(["bash"]);
    expect(await complete("log", "turn-")).toEqual(["turn-end", "turn-failed"]);
    expect(await complete("nonsense", "")).toEqual([""]);
  });

  test("bash offers the names of agents where a command takes one, and nowhere else", async () => {
    await project.register({ name: "ada" });
    for (const words of [["stop"], ["nudge"], ["wait"], ["worktree", "clean"]]) {
      expect(await complete(...words, "a")).toEqual(["ada"]);
    }
    expect(await complete("task", "show", "a")).toEqual([""]);
    expect(await complete("stop", "--a")).toEqual(["--all"]);
  });

  test("every command and option is in each script", async () => {
    for (const shell of ["bash", "zsh", "fish"]) {
      const text = await script(shell);
      for (const { path, options = [] } of COMMANDS) {
        expect(text).toContain(path.at(-1) ?? "");
        for (const { flags } of options) expect(text).toContain(flags.split(" ")[0]?.slice(2) ?? "");
      }
    }
  });

  test("the scripts are valid in the shells that are installed", async () => {
    for (const shell of ["bash", "zsh", "fish"].filter(isInstalled)) {
      using folder = tempFolder();
      const file = folder.write("completions", await script(shell));
      const { exitCode, stderr } = Bun.spawnSync([shell, "-n", file], { env: cleanEnvironment() });
      expect({ shell, exitCode, stderr: stderr.toString() }).toEqual({ shell, exitCode: 0, stderr: "" });
    }
    expect(await script("fish")).not.toMatch(/^(?!complete -c overseer ).+$/m);
  });

  test("another shell is refused", async () => {
    expect((await project.overseer(["completions", "tcsh"])).exitCode).toBe(64);
  });
});
