import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { onTerminal } from "./support/cli.ts";
import type { AgentView, Fleet } from "./support/fleet.ts";
import { completedWorker, deadWorker, standInFleet } from "./support/stand-in-claude.ts";

describe("what is said", () => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await standInFleet({ config: "agents: { maxConcurrent: 20 }\n" });
  });
  afterAll(() => fleet[Symbol.asyncDispose]());

  /** Its turn has ended, and its task is open. */
  async function idleWorker(name: string): Promise<AgentView> {
    const words = ["sling", `The work of ${name}`, "--name", name, "--capability", "builder", "--json"];
    const answer = await fleet.overseer(words, { env: { STAND_IN_DOES: "true" } });
    await fleet.untilState(name, "idle");
    return answer.data<{ agent: AgentView }>().agent;
  }

  test("by wait of an idle worker whose task is open: that, and what helps, at the end or on a terminal at once", async () => {
    const { taskId } = await idleWorker("ida");
    const late = await fleet.overseer(["wait", "ida", "--timeout", "1ms", "--json"]);
    const help = 'overseer nudge ida "go on", or overseer attach ida';
    expect(late.error()).toMatchObject({
      message: `not completed yet: ida is idle, and its task ${taskId} is open`,
      hint: help,
    });
    const words = "wait ida --timeout 4s";
    const [seen, piped] = await Promise.all([
      onTerminal(fleet.root, words, { NO_COLOR: "1" }),
      fleet.overseer(words.split(" ")),
    ]);
    const line = `ida is idle, and its task ${taskId} is open: ${help}`;
    expect(seen.split("\r\n").filter((said) => said === line)).toHaveLength(1);
    expect(piped.stderr).not.toContain(line);
  });

  test("by stop of one that has ended is only what is not refused then", async () => {
    const commit = "echo 1 > done.txt && git add done.txt && git commit -qm done";
    await completedWorker(fleet, "cora", commit);
    const { hint = "" } = (await fleet.overseer(["stop", "cora", "--json"])).error();
    expect(hint).toBe("overseer diff cora shows what it did");
    expect((await fleet.overseer(["diff", "cora"])).stdout).toContain("+++ b/done.txt");
    await fleet.overseer(["worktree", "clean", "cora", "--force"]);
    expect((await fleet.overseer(["stop", "cora", "--json"])).error().hint).toBe("overseer logs cora");
  });

  test("of a worktree that was removed under a live worker: that it is gone, and stop and resume bring it back", async () => {
    await fleet.sling("hana", "Lose your home");
    rmSync(fleet.worktree("hana"), { recursive: true });
    const help = "overseer stop hana && overseer resume hana";
    expect((await fleet.overseer(["diff", "hana"])).stderr).toContain(`its worktree is gone: ${help}`);
    expect((await fleet.overseer(["inspect", "hana"])).stdout).toContain(`(its worktree is gone: ${help})`);
    const { stdout } = await fleet.overseer(["status"]);
    expect(stdout).toMatch(/^hana .* worktree gone$/m);
    expect(stdout).toContain(`\nhana has lost its worktree: ${help}\n`);
    for (const command of help.split(" && ")) {
      expect((await fleet.overseer(command.split(" ").slice(1))).exitCode).toBe(0);
    }
    expect(existsSync(join(fleet.worktree("hana"), "README.md"))).toBe(true);
    expect((await fleet.overseer(["diff", "hana"])).stderr).toBe("");
  });

  test("at sling of changes that are not committed: that the worker has them not, unless JSON is asked for", async () => {
    const sling = (name: string, ...args: string[]) =>
      fleet.overseer(["sling", "Begin here", "--name", name, "--capability", "builder", ...args]);
    expect((await sling("cleo")).stderr).toBe("");
    fleet.repo.write("scratch.txt", "nothing that a worker would miss\n");
    expect((await sling("dido")).stderr).toBe("");
    fleet.repo.write("begun.txt", "half\n");
    fleet.repo.git("add", "begun.txt");
    fleet.repo.write("README.md", "changed\n");
    expect((await sling("dora")).stderr).toBe(
      "you have uncommitted changes (README.md and 1 more); dora begins at the last commit, without them\n",
    );
    expect((await sling("elsa", "--json")).stderr).toBe("");
  });

  test("by doctor --fix of workers is what it did, and of what it could not do, why", async () => {
    await deadWorker(fleet, "dead");
    const finding = async () => {
      const { stdout } = await fleet.overseer(["doctor", "--fix", "--json"]);
      const { findings } = JSON.parse(stdout).data as { findings: Record<string, string>[] };
      return findings.find(({ check }) => check === "workers");
    };
    expect(await finding()).toMatchObject({
      verdict: "fixed",
      detail: "recorded dead as dead (overseer resume dead)",
    });
    expect(await finding()).toMatchObject({ verdict: "ok" });
  });
});
