import { describe, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { completionId } from "../src/domain/session.ts";
import { processMark } from "../src/effects/processes.ts";
import { cleanWorktrees } from "../src/flows/clean.ts";
import { takeBack } from "../src/flows/leavings.ts";
import { type Project, sessionEvent } from "../src/flows/project.ts";
import { registerWorker } from "../src/flows/register.ts";
import { repairWorkers } from "../src/flows/repair.ts";
import { resumeWorker } from "../src/flows/resume.ts";
import { currentWorker, stopWorker } from "../src/flows/stop.ts";
import type { Ledger } from "../src/store/contract.ts";
import type { Fleet } from "./support/fleet.ts";
import { gateFor, isRunning, killHard, panesOf, remainsOf, spawnOf, startOverseer } from "./support/kill.ts";
import {
  completedWorker,
  deadWorker,
  isAlive,
  paneNames,
  refsOf,
  rowsOf,
  standInClaude,
  standInFleet,
  wholeState,
} from "./support/stand-in-claude.ts";
import { tempFolder } from "./support/temp.ts";
import { until } from "./support/until.ts";

const SOON = { timeoutMs: 30_000, everyMs: 5 };
const HUMAN = { kind: "human", name: "human" } as const;
const slingArgs = (name: string) => [
  "sling",
  `The work of ${name}`,
  "--name",
  name,
  "--capability",
  "builder",
];

/** The project as one overseer sees it, while another is faster: that happens right before this call to the ledger. */
function interrupted(project: Project, call: keyof Ledger, meanwhile: () => Promise<unknown>): Project {
  let isOver = false;
  const { paths, clock, git, env, cwd, mail } = project;
  const original = project.ledger[call] as (...args: unknown[]) => unknown;
  const ledger = {
    ...project.ledger,
    [call]: async (...args: unknown[]) => {
      if (!isOver) {
        isOver = true;
        await meanwhile();
      }
      return await original(...args);
    },
  };
  const tmux = () => project.tmux();
  const config = () => project.config();
  return { paths, clock, git, env, cwd, mail, ledger, tmux, config };
}

class Killed extends Error {}

/** The same, where it is this one that goes no further. */
function killedAt(project: Project, call: keyof Ledger): Project {
  return interrupted(project, call, async () => {
    throw new Killed();
  });
}

function commitIn(fleet: Fleet, name: string, file: string, content: string): void {
  writeFileSync(join(fleet.worktree(name), file), content);
  fleet.gitIn(name, "add", "--all");
  fleet.gitIn(name, "commit", "--quiet", "--message", `${name} made ${file}`);
}

function branches(fleet: Fleet): string[] {
  const heads = refsOf(fleet).map((ref) => ref.split(" ")[0] ?? "");
  return heads.filter((ref) => ref.startsWith("refs/heads/overseer/"));
}

/** Somebody who lives, and is not this process. */
async function somebody(): Promise<string> {
  const mark = await processMark(process.ppid);
  if (mark === null) throw new Error("nobody has started this test");
  return mark;
}

describe("a copy of a repository that has workers", () => {
  test("neither ends nor takes over those of the original, and says where they are", async () => {
    using place = tempFolder("overseer-copy-");
    await using fleet = await standInFleet();
    const ada = await fleet.sling("ada", "Go on for a while");
    await deadWorker(fleet, "bob");
    const setup = Bun.spawn(["cat"], { stdin: "pipe" });
    await halfMade(fleet, "kim", { setup: await processMark(setup.pid) });
    const copy = join(place.path, "copy");
    cpSync(fleet.root, copy, { recursive: true, verbatimSymlinks: true });
    const before = wholeState(fleet, "ada", "bob");
    for (const args of [
      ["stop", "ada"],
      ["stop", "--all"],
      ["resume", "ada"],
      ["resume", "bob"],
      ["finish", "ada"],
      ["worktree", "clean", "ada", "--force"],
    ]) {
      const refused = (await fleet.overseer([...args, "--json"], { cwd: copy })).error();
      expect([args, refused]).toEqual([args, expect.objectContaining({ code: "worker_elsewhere" })]);
      expect(`${refused.message} ${refused.hint}`).toContain(fleet.root);
    }
    const clean = await fleet.overseer(["worktree", "clean", "bob", "--force", "--json"], { cwd: copy });
    expect(clean.error()).toMatchObject({ code: "worktree_left" });
    expect((await fleet.overseer(["doctor", "--fix"], { cwd: copy })).stderr).toBe("");
    expect(wholeState(fleet, "ada", "bob")).toEqual(before);
    expect([await isAlive(ada.pid), await isAlive(setup.pid)]).toEqual([true, true]);
    expect((await fleet.overseer(["stop", "--all"])).exitCode).toBe(0);
    expect([await isAlive(ada.pid), await isAlive(setup.pid)]).toEqual([false, false]);
  });

  /** What a sling leaves that was killed, with whatever it had noted. */
  async function halfMade(fleet: Fleet, name: string, notes: Record<string, unknown>): Promise<void> {
    await fleet.open(async (project) => {
      const reservation = { owner: "1:gone", maxConcurrent: 10, newTask: null, mirror: null, notes };
      await registerWorker(
        project,
        { name, capability: "builder", worktree: fleet.worktree(name) },
        reservation,
      );
    });
  }

  test("leaves worktrees alone that lie where both would look for them", async () => {
    using place = tempFolder("overseer-copy-");
    const config = `worktrees: { baseDir: ${join(place.path, "trees")} }\n`;
    await using fleet = await standInFleet({ config });
    const { worktree } = await deadWorker(fleet, "ada");
    writeFileSync(join(worktree, "work.txt"), "in no commit\n");
    const copy = join(place.path, "copy");
    cpSync(fleet.root, copy, { recursive: true, verbatimSymlinks: true });
    const refused = await fleet.overseer(["worktree", "clean", "ada", "--force", "--json"], { cwd: copy });
    expect(refused.error()).toMatchObject({ code: "worktree_left" });
    expect(refused.error().message).toContain(fleet.root);
    expect(existsSync(join(worktree, "work.txt"))).toBe(true);
  });
});

describe("while a worktree is cleaned,", () => {
  async function cleanWhile(fleet: Fleet, isForced: boolean, meanwhile: () => Promise<unknown>) {
    const request = { name: "ada", isCompletedOnly: false, isForced };
    return await fleet.open((project) =>
      cleanWorktrees(interrupted(project, "takeLease", meanwhile), request),
    );
  }

  test("a worker that was resumed just before keeps it", async () => {
    await using fleet = await standInFleet();
    await deadWorker(fleet, "ada");
    const resume = () => fleet.overseer(["resume", "ada"]);
    await expect(cleanWhile(fleet, true, resume)).rejects.toMatchObject({ code: "changed_meanwhile" });
    const ada = await fleet.session("ada");
    expect([ada.state, ada.worktree, await isAlive(ada.pid ?? 0)]).toEqual([
      "working",
      fleet.worktree("ada"),
      true,
    ]);
    expect(fleet.gitIn("ada", "status", "--porcelain")).toBe("");
  });

  test("a worker of that name that was slung just before keeps its own", async () => {
    await using fleet = await standInFleet();
    await deadWorker(fleet, "ada");
    const sling = async () => {
      await fleet.overseer(["doctor", "--fix"]);
      await fleet.sling("ada", "Another thing");
    };
    await expect(cleanWhile(fleet, true, sling)).rejects.toMatchObject({ code: "changed_meanwhile" });
    const ada = await fleet.session("ada");
    expect([ada.state, existsSync(fleet.worktree("ada"))]).toEqual(["working", true]);
    expect(branches(fleet)).toEqual([`refs/heads/${ada.branch}`]);
  });

  test("a file that is written just before is not lost", async () => {
    await using fleet = await standInFleet();
    await deadWorker(fleet, "ada");
    const file = join(fleet.worktree("ada"), "late.txt");
    const write = async () => writeFileSync(file, "late\n");
    await expect(cleanWhile(fleet, false, write)).rejects.toMatchObject({ code: "worktree_dirty" });
    expect(readFileSync(file, "utf8")).toBe("late\n");
    expect(branches(fleet)).toHaveLength(1);
  });

  test("whoever resumes it finds that it is gone, and starts nothing", async () => {
    await using fleet = await standInFleet();
    await deadWorker(fleet, "ada");
    const clean = async () => expect((await fleet.overseer(["worktree", "clean", "ada"])).exitCode).toBe(0);
    const resumed = fleet.open(async (project) =>
      resumeWorker(
        interrupted(project, "takeLease", clean),
        await currentWorker(project, "ada"),
        true,
        () => {},
      ),
    );
    await expect(resumed).rejects.toMatchObject({ message: "ada has no worktree any more" });
    expect(await remainsOf(fleet, "ada")).toEqual([]);
  });
});

describe("a resume", () => {
  test("that gives up ends the process it has launched, also one that outlives its pane", async () => {
    using tools = tempFolder();
    const hang = `[ -z "$HANGS" ] || { trap '' HUP; while [ -e "$0" ]; do sleep 0.05; done; }`;
    const bin = tools.write("claude", `#!/bin/sh\n${hang}\nexec ${standInClaude} "$@"\n`, 0o755);
    await using fleet = await standInFleet({ config: "agents: { bootTimeout: 2s }\n" });
    fleet.repo.write(".overseer/config.yaml", `claude: { bin: ${bin} }\nagents: { bootTimeout: 2s }\n`);
    await deadWorker(fleet, "ada");
    const resume = await fleet.overseer(["resume", "ada", "--json"], { env: { HANGS: "1" } });
    expect(resume.error().code).toBe("boot_failed");
    const { state, pid, worktree } = await fleet.session("ada");
    expect([state, isRunning(pid), worktree]).toEqual(["failed", false, fleet.worktree("ada")]);
    expect(panesOf(fleet)).toEqual([]);
  });

  test("of one that is just being finished is told to come back later", async () => {
    await using fleet = await standInFleet();
    await deadWorker(fleet, "ada");
    const owner = await somebody();
    await fleet.open(async ({ ledger }) => {
      const ada = await ledger.currentSession("ada");
      if (!ada) throw new Error("ada is gone");
      const id = completionId(ada.id);
      const event = sessionEvent(ada, "session.completing", 1, { reason: "made" });
      await ledger.planAction({ id, kind: "complete", subject: "ada", payload: { reason: "made" } }, event);
      await ledger.takeAction(id, null, owner, 2);
    });
    const resume = await fleet.overseer(["resume", "ada", "--json"]);
    expect([resume.exitCode, resume.error().code]).toEqual([75, "nothing_yet"]);
    expect(paneNames(fleet)).toEqual(["overseer-ada"]);
    expect((rowsOf(fleet).sessions ?? []).length).toBe(1);
  });

  test("makes a worktree that is gone anew, with what .worktreeinclude lists and worktrees.setup", async () => {
    const files = { "README.md": "# test\n", ".worktreeinclude": ".env\n", ".gitignore": ".env\nmade\n" };
    await using fleet = await standInFleet({ files, config: "worktrees: { setup: echo once >> made }\n" });
    fleet.repo.write(".env", "KEY=1\n");
    await deadWorker(fleet, "ada");
    commitIn(fleet, "ada", "work.txt", "work\n");
    rmSync(fleet.worktree("ada"), { recursive: true });
    expect((await fleet.overseer(["resume", "ada"])).exitCode).toBe(0);
    const content = (file: string) => readFileSync(join(fleet.worktree("ada"), file), "utf8");
    expect([content("work.txt"), content(".env"), content("made")]).toEqual(["work\n", "KEY=1\n", "once\n"]);
  });
});

describe("a stop", () => {
  /** A worker with a child that outlives it, and whose stop was killed when it had noted what is to be ended. */
  async function halfStopped(fleet: Fleet, name: string): Promise<{ pid: number; child: number }> {
    const file = join(fleet.root, `.overseer/${name}.pid`);
    const doing = `sh -c 'trap "" TERM HUP; echo $$ > "${file}"; while [ -e "${file}" ]; do sleep 0.05; done'`;
    await fleet.overseer([...slingArgs(name)], { env: { STAND_IN_DOES: doing } });
    const child = await until(
      "its child runs",
      () => existsSync(file) && (Number(readFileSync(file, "utf8")) || null),
      SOON,
    );
    const session = await fleet.session(name);
    const stop = fleet.open((project) => stopWorker(killedAt(project, "takeAction"), HUMAN, session));
    await expect(stop).rejects.toBeInstanceOf(Killed);
    return { pid: session.pid ?? 0, child };
  }

  test.each([
    ["stop", ["stop", "ada"]],
    ["stop --all", ["stop", "--all"]],
    ["doctor --fix", ["doctor", "--fix"]],
    ["sling", slingArgs("bob")],
    ["resume", ["resume", "ada"]],
  ])("that was killed before it ended anything is carried out by %s", async (_, remedy) => {
    await using fleet = await standInFleet();
    const { pid, child } = await halfStopped(fleet, "ada");
    const first = await fleet.session("ada");
    expect([first.state, isRunning(pid), isRunning(child)]).toEqual(["working", true, true]);
    expect((await fleet.overseer(["status"])).exitCode).toBe(0);
    expect((await fleet.overseer(["doctor"])).stdout).toContain("the stop of ada was killed");
    expect((await fleet.overseer(remedy)).exitCode).toBe(0);
    expect([isRunning(pid), isRunning(child)]).toEqual([false, false]);
    await fleet.open(async ({ ledger }) => {
      const stopped = (await ledger.findSession({ sessionId: first.id }))?.session;
      expect([stopped?.state, stopped?.cause]).toEqual(["stopped", "stopped by human"]);
      expect(await ledger.openActions("stop")).toEqual([]);
    });
  });

  test("that was killed when the worker was gone and its child was not: doctor --fix ends the child, too", async () => {
    await using fleet = await standInFleet();
    const { pid, child } = await halfStopped(fleet, "ada");
    killHard(pid);
    await until("it is gone", () => !isRunning(pid), SOON);
    expect(isRunning(child)).toBe(true);
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    expect([isRunning(child), (await fleet.session("ada")).state]).toEqual([false, "stopped"]);
    expect(panesOf(fleet)).toEqual([]);
  });

  test("never touches a later incarnation", async () => {
    await using fleet = await standInFleet();
    const { pid } = await halfStopped(fleet, "ada");
    killHard(pid);
    await until("it is gone", () => !isRunning(pid), SOON);
    await fleet.open(async (project) => {
      await resumeWorker(project, await currentWorker(project, "ada"), true, () => {});
    });
    await fleet.overseer(["doctor", "--fix"]);
    const ada = await fleet.session("ada");
    expect([ada.state, isRunning(ada.pid)]).toEqual(["working", true]);
  });

  test("of one that is launched at that very moment ends it all the same", async () => {
    using tools = tempFolder();
    const tmux = gateFor("tmux", tools);
    await using fleet = await standInFleet({ config: `tmux: { bin: ${tmux.bin} }\n` });
    tmux.close("new-session");
    const sling = startOverseer(fleet, ...slingArgs("ada"), "--no-wait");
    await tmux.reached();
    const launched = async () => {
      await tmux.open();
      expect((await sling.ended()).exitCode).toBe(0);
    };
    await fleet.open(async (project) => {
      const faster = interrupted(project, "endSession", launched);
      const stopped = await stopWorker(faster, HUMAN, await currentWorker(project, "ada"));
      expect(stopped).toEqual({ name: "ada", worktree: "kept" });
    });
    const { state, pid } = await fleet.session("ada");
    expect([state, pid === null, isRunning(pid)]).toEqual(["stopped", false, false]);
    expect(panesOf(fleet)).toEqual([]);
    expect(existsSync(fleet.worktree("ada"))).toBe(true);
  });

  test("of one that is still being started says that what was made is taken back, and so it is", async () => {
    using tools = tempFolder();
    const bin = tools.write("claude", "#!/bin/sh\nexec cat\n", 0o755);
    await using fleet = await standInFleet();
    fleet.repo.write(".overseer/config.yaml", `claude: { bin: ${bin} }\n`);
    const sling = startOverseer(fleet, ...slingArgs("ada"), "--json");
    await until("it is launched", () => spawnOf(fleet, "ada")?.step === "confirm", SOON);
    const stop = await fleet.overseer(["stop", "ada"]);
    expect([stop.exitCode, stop.stderr]).toEqual([0, ""]);
    expect(stop.stdout).toBe("Stopped ada before it had begun; what was made for it was taken back.\n");
    expect(await remainsOf(fleet, "ada")).toEqual([]);
    const { exitCode, stdout } = await sling.ended();
    expect([exitCode, JSON.parse(stdout).error.code]).toEqual([1, "ended_otherwise"]);
  });

  test("of one whose sling is killed right after: the next repair takes back what was made", async () => {
    using tools = tempFolder();
    const tmux = gateFor("tmux", tools);
    await using fleet = await standInFleet({ config: `tmux: { bin: ${tmux.bin} }\n` });
    tmux.close("new-session");
    const sling = startOverseer(fleet, ...slingArgs("ada"));
    await tmux.reached();
    const stop = startOverseer(fleet, "stop", "ada");
    await fleet.untilState("ada", "stopped");
    await sling.kill();
    await tmux.open();
    expect((await stop.ended()).stdout).toContain("what was made for it is being taken back");
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    expect(await remainsOf(fleet, "ada")).toEqual([]);
    expect((await fleet.session("ada")).state).toBe("failed");
  });

  test("killed at one moment or another after it was noted: doctor --fix carries it out", async () => {
    await using fleet = await standInFleet({ config: "agents: { maxConcurrent: 100 }\n" });
    const isPlanned = (name: string) =>
      (rowsOf(fleet).actions as { kind: string; subject: string }[]).some(
        (action) => action.kind === "stop" && action.subject === name,
      );
    for (const [at, afterMs] of [0, 5, 15, 30, 60].entries()) {
      const name = `worker-${at}`;
      const { pid } = await fleet.sling(name, "Go on for a while");
      const stop = startOverseer(fleet, "stop", name);
      await until("it is noted", () => stop.hasEnded || isPlanned(name), SOON);
      await stop.kill(afterMs);
      expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
      const { state } = await fleet.session(name);
      expect([name, state, isRunning(pid)]).toEqual([name, "stopped", false]);
    }
    expect(panesOf(fleet)).toEqual([]);
    expect(
      (await fleet.overseer(["resume", "--all", "--json"])).data<{ agents: unknown[] }>().agents,
    ).toHaveLength(5);
  });

  test("while its worktree is prepared keeps it from being launched", async () => {
    using tools = tempFolder();
    const going = tools.write("going", "");
    const setup = `touch begun; while [ -e ${going} ]; do sleep 0.02; done`;
    await using fleet = await standInFleet({ config: `worktrees: { setup: "${setup}" }\n` });
    const sling = startOverseer(fleet, ...slingArgs("ada"));
    await until("the setup runs", () => existsSync(join(fleet.worktree("ada"), "begun")), SOON);
    const stop = startOverseer(fleet, "stop", "ada");
    await fleet.untilState("ada", "stopped");
    rmSync(going);
    expect((await sling.ended()).exitCode).toBe(1);
    expect((await stop.ended()).stdout).toContain("what was made for it was taken back");
    expect(await remainsOf(fleet, "ada")).toEqual([]);
  });
});

describe("a sling", () => {
  test("that was killed while it removed what its merged predecessor left: doctor --fix removes the rest", async () => {
    using tools = tempFolder();
    const git = gateFor("git", tools);
    await using fleet = await standInFleet({ config: `git: { bin: ${git.bin} }\n` });
    const script = "echo made > made.txt; git add --all; git commit --quiet --message made";
    const { taskId, branch } = await completedWorker(fleet, "ada", script);
    fleet.repo.git("merge", "--quiet", "--no-edit", branch);
    git.close("worktree remove", "after");
    const sling = startOverseer(fleet, ...slingArgs("ada"));
    await git.reached();
    await sling.kill();
    await git.open();
    expect([existsSync(fleet.worktree("ada")), branches(fleet)]).toEqual([false, [`refs/heads/${branch}`]]);
    expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
    expect(branches(fleet)).toEqual([]);
    await fleet.open(async ({ ledger }) => {
      expect((await ledger.mergeEntries({ taskId })).map(({ status }) => status)).toEqual(["merged"]);
      expect((await ledger.findTask(taskId))?.status).toBe("done");
    });
    await fleet.sling("ada", "Another thing");
    expect(branches(fleet)).toHaveLength(1);
  });

  test("of a name that only git remembers clears what has landed, and refuses what has not", async () => {
    await using fleet = await standInFleet();
    await deadWorker(fleet, "ada");
    await deadWorker(fleet, "bob");
    commitIn(fleet, "bob", "work.txt", "in no other branch\n");
    const tip = fleet.gitIn("bob", "rev-parse", "HEAD");
    const theirs = fleet.worktree("kim");
    fleet.repo.git("worktree", "add", "--quiet", "-b", "theirs", theirs);
    fleet.tmux("kill-server");
    const config = readFileSync(join(fleet.root, ".overseer/config.yaml"), "utf8");
    rmSync(join(fleet.root, ".overseer"), { recursive: true });
    expect((await fleet.overseer(["init"])).exitCode).toBe(0);
    fleet.repo.write(".overseer/config.yaml", config);

    await fleet.sling("ada", "Once more");
    const refused = (await fleet.overseer([...slingArgs("bob"), "--json"])).error();
    expect(refused).toMatchObject({
      code: "worktree_unmerged",
      hint: "overseer worktree clean bob --force saves it under a ref first",
    });
    expect(refsOf(fleet).some((ref) => ref.startsWith("refs/heads/overseer/bob/") && ref.endsWith(tip))).toBe(
      true,
    );
    await fleet.open((project) =>
      takeBack(project, { name: "bob", branch: "overseer/bob/t-new", baseCommit: null }),
    );
    expect(branches(fleet).filter((branch) => branch.startsWith("refs/heads/overseer/bob/"))).toHaveLength(1);
    const clean = await fleet.overseer(["worktree", "clean", "bob", "--force", "--json"]);
    const [removed] = clean.data<{ removed: { rescueRef: string }[] }>().removed;
    expect(fleet.repo.git("rev-parse", removed?.rescueRef ?? "")).toBe(tip);
    await fleet.sling("bob", "Once more");

    const place = (await fleet.overseer([...slingArgs("kim"), "--json"])).error();
    expect(place).toMatchObject({ code: "worktree_left" });
    expect(place.message).toContain("git has a record of a worktree");
    expect(fleet.repo.git("worktree", "list", "--porcelain")).toContain(`worktree ${theirs}\n`);
  });

  test("is not kept waiting by another worker that cannot be helped", async () => {
    await using fleet = await standInFleet();
    await deadWorker(fleet, "ada");
    await fleet.open(async ({ ledger }) => {
      const ada = await ledger.currentSession("ada");
      if (!ada) throw new Error("ada is gone");
      const event = sessionEvent(ada, "session.completing", 1, { reason: "made" });
      const action = {
        id: completionId(ada.id),
        kind: "complete",
        subject: "ada",
        payload: { reason: "made" },
      };
      await ledger.planAction(action, event);
    });
    writeFileSync(join(fleet.worktree("ada"), ".git"), "no longer what git takes for one\n");
    await fleet.sling("bob", "Go on for a while");
    const log = readFileSync(join(fleet.root, ".overseer/logs/errors.log"), "utf8");
    expect(log).toContain("repairing ada (unfinished)");
    const { stdout } = await fleet.overseer(["doctor", "--fix"]);
    expect(stdout).toMatch(
      /^broken +workers +ada has finished, .* could not be repaired: .+\n +next: .*errors\.log/m,
    );
  });

  test("that came to its start just when it was given up is kept", async () => {
    using tools = tempFolder();
    const bin = tools.write("claude", "#!/bin/sh\nexec cat\n", 0o755);
    await using fleet = await standInFleet();
    fleet.repo.write(".overseer/config.yaml", `claude: { bin: ${bin} }\nagents: { bootTimeout: 1s }\n`);
    const { pid } = await fleet.sling("ada", "Make a thing", "--no-wait");
    const { id, stateAt } = await fleet.session("ada");
    await until("it is late", () => Date.now() - stateAt > 1_000, SOON);
    await fleet.open(async (project) => {
      const start = {
        at: Date.now(),
        signal: { kind: "started", isIdle: false },
        event: "session.started",
        data: {},
      } as const;
      const started = () => project.ledger.recordActivity({ sessionId: id }, start);
      const repairs = await repairWorkers(interrupted(project, "endSession", started));
      expect(repairs).toMatchObject([{ trouble: { kind: "never started" }, done: "left alone" }]);
    });
    expect([(await fleet.session("ada")).state, isRunning(pid)]).toEqual(["working", true]);
    expect(existsSync(fleet.worktree("ada"))).toBe(true);
  });
});

test("a worker that has closed its task is finished also when its turn ends in an error", async () => {
  await using fleet = await standInFleet();
  const closing = `overseer task close "$(git branch --show-current | sed 's|.*/||')" --reason finished`;
  const failing = `echo '{"session_id":"c","error":"server_error"}' | overseer log StopFailure`;
  const env = { STAND_IN_DOES: `${closing} && ${failing} && exec cat` };
  expect((await fleet.overseer(slingArgs("ada"), { env })).exitCode).toBe(0);
  const { pid } = await fleet.untilState("ada", "completed");
  await until("its process is gone", () => !isRunning(pid), SOON);
});

test("a person's worktree on a disk that is away stays known to git, whatever is done beside it", async () => {
  await using fleet = await standInFleet();
  using disk = tempFolder();
  const theirs = join(disk.path, "theirs");
  fleet.repo.git("worktree", "add", "--quiet", "-b", "theirs", theirs);
  rmSync(theirs, { recursive: true });
  await deadWorker(fleet, "ada");
  rmSync(fleet.worktree("ada"), { recursive: true });
  for (const args of [
    ["resume", "ada"],
    ["stop", "ada"],
    ["worktree", "clean", "ada"],
    slingArgs("ada"),
    ["stop", "ada"],
    ["worktree", "clean", "--all"],
    ["doctor", "--fix"],
  ]) {
    const { exitCode, stderr } = await fleet.overseer(args);
    expect([args, exitCode, stderr]).toEqual([args, 0, ""]);
    expect(fleet.repo.git("worktree", "list", "--porcelain")).toContain(`worktree ${theirs}\n`);
  }
  expect(existsSync(fleet.worktree("ada"))).toBe(false);
});

test("doctor leaves an index alone whose process lives, and takes away one whose process is gone", async () => {
  await using fleet = await standInFleet();
  const child = Bun.spawn(["true"]);
  await child.exited;
  const file = (name: string) => join(fleet.root, ".overseer/agents/ada", name);
  mkdirSync(join(fleet.root, ".overseer/agents/ada"), { recursive: true });
  const live = [file(`rescue-index-${process.pid}`), file(`diff-index-${process.pid}`)];
  const dead = [file(`rescue-index-${child.pid}`), file(`diff-index-${child.pid}`)];
  for (const index of [...live, ...dead]) writeFileSync(index, "");
  expect((await fleet.overseer(["doctor", "--fix"])).exitCode).toBe(0);
  expect([live.map(existsSync), dead.map(existsSync)]).toEqual([
    [true, true],
    [false, false],
  ]);
});
