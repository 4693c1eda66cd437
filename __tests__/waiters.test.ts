import { expect, test } from "bun:test";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type HookRole, hookGroups } from "../src/domain/hook-settings.ts";
import { hookProgram } from "../src/effects/package.ts";
import { dismissWaiters, forgetKnocks, knock } from "../src/effects/waiters.ts";
import { wakeRecipients } from "../src/flows/wake.ts";
import { isRunning } from "./support/kill.ts";
import { cleanEnvironment, type TestProject, testProject } from "./support/project.ts";
import { until } from "./support/until.ts";

/** What a person's terminal gives a hook of Claude Code. */
const ATTENDED = { CLAUDE_CODE_ENTRYPOINT: "cli", CLAUDE_CODE_SESSION_ATTENDED: "1" };
type WaiterEvent = "SessionStart" | "UserPromptSubmit";

interface Waiting {
  role?: HookRole;
  event?: WaiterEvent;
  env?: Record<string, string>;
}

type Waiter = Bun.Subprocess<Blob, "ignore", "pipe">;

/** A repository whose waiters have this test as their Claude Code: they are its children, as a hook is claude's. */
interface Place extends AsyncDisposable {
  readonly at: TestProject;
  readonly door: string;
  start(options?: Waiting): Waiter;
  /** Starts one, and returns when it waits behind the door. */
  wait(options?: Waiting): Promise<Waiter>;
  knock(): boolean;
  files(): string[];
}

async function place(): Promise<Place> {
  const at = await testProject();
  const door = join(at.paths.waiters, String(process.pid));
  const started: Waiter[] = [];
  const start: Place["start"] = ({ role = "orchestrator", event = "SessionStart", env = ATTENDED } = {}) => {
    const child = Bun.spawn(["/bin/sh", "-c", waiterCommand(at, role, event)], {
      cwd: at.root,
      env: cleanEnvironment(env),
      stdin: new Blob([JSON.stringify({ hook_event_name: event, prompt: "x".repeat(200_000) })]),
      stdout: "ignore",
      stderr: "pipe",
    });
    started.push(child);
    return child;
  };
  return {
    at,
    door,
    start,
    async wait(options) {
      const waiter = start(options);
      await until("it waits behind the door", () => isBehind(waiter.pid, door), { everyMs: 2 });
      return waiter;
    },
    knock: () => knock(at.paths, process.pid),
    files: () => readdirSync(at.paths.waiters).map((name) => name.replace(String(process.pid), "door")),
    async [Symbol.asyncDispose]() {
      for (const child of started) child.kill("SIGKILL");
      await Promise.all(started.map((child) => child.exited));
      await at[Symbol.asyncDispose]();
    },
  };
}

/** As it stands in the settings file of a session. */
function waiterCommand(at: TestProject, role: HookRole, event: WaiterEvent): string {
  const [group] = hookGroups(role, hookProgram(), at.root)[event] ?? [];
  const hook = group?.hooks.find(({ asyncRewake }) => asyncRewake);
  if (!hook) throw new Error(`${event} starts no waiter`);
  return hook.command;
}

function isBehind(pid: number, door: string): boolean {
  const own = statSync(`/proc/${pid}/fd/9`, { throwIfNoEntry: false });
  return own?.isFIFO() === true && lstatSync(door, { throwIfNoEntry: false })?.ino === own.ino;
}

/** The orchestrator's session, idle at its prompt, whose process is this one. */
async function idleOrchestrator(at: TestProject): Promise<void> {
  await at.claude(null).fire("SessionStart", { source: "startup" }, asThisProcess);
}

const asThisProcess = { env: { CLAUDE_PID: String(process.pid) } };

test("mail for an idle session wakes it through its waiter, by a notice that has no word of the mail", async () => {
  await using here = await place();
  const { at } = here;
  await idleOrchestrator(at);
  const waiter = await here.wait();
  const mail = ["--to", "orchestrator", "--subject", "subject-words", "--body", "body-words"];
  const sent = await at.overseer(["mail", "send", ...mail]);
  expect(sent.stdout).toContain("it was idle and has been woken");
  expect(await waiter.exited).toBe(2);
  const notice = await waiter.stderr.text();
  expect(notice).toStartWith("overseer: mail has come for you.");
  expect(notice).not.toContain("words");
});

test("so does mail for one whose turn has failed at a limit of which nobody knows the end, and at no other", async () => {
  await using here = await place();
  const { at } = here;
  const mail = ["mail", "send", "--to", "orchestrator", "--subject", "news"];
  const claude = at.claude(null);
  await claude.fire("SessionStart", { source: "startup" }, asThisProcess);
  const waiter = await here.wait();
  const words = "You've hit your limit · resets 11:59pm";
  await claude.fire("StopFailure", { error: "rate_limit", last_assistant_message: words }, asThisProcess);
  expect((await at.overseer(mail)).stdout).toContain("it is waiting (rate_limit)");
  expect(waiter.exitCode).toBeNull();
  await claude.fire("UserPromptSubmit", {}, asThisProcess);
  await claude.fire("StopFailure", { error: "overloaded_error" }, asThisProcess);
  expect((await at.overseer(mail)).stdout).toContain("has been woken");
  expect(await waiter.exited).toBe(2);
});

test("a waiter waits only beside a session with a person at its terminal, and only in its own role", async () => {
  await using here = await place();
  const worker = { ...ATTENDED, OVERSEER_TOKEN: "token", OVERSEER_AGENT_NAME: "ada" };
  const turnedAway: Waiting[] = [
    { env: {} },
    { env: { CLAUDE_CODE_ENTRYPOINT: "cli" } },
    { env: { CLAUDE_CODE_ENTRYPOINT: "sdk-cli", CLAUDE_CODE_SESSION_ATTENDED: "1" } },
    { env: { CLAUDE_CODE_ENTRYPOINT: "cli", CLAUDE_CODE_SESSION_ATTENDED: "0" } },
    { role: "orchestrator", env: worker },
    { role: "orchestrator", env: { ...ATTENDED, OVERSEER_AGENT_NAME: "ada" } },
    { role: "worker", env: ATTENDED },
  ];
  for (const options of turnedAway) {
    expect({ options, code: await here.start(options).exited }).toEqual({ options, code: 0 });
  }
  expect(here.files()).toEqual([]);
  await here.wait({ role: "worker", env: worker });
  expect(here.knock()).toBe(true);
});

test("a new waiter sends the former one away without a word, and is the one that a knock finds", async () => {
  await using here = await place();
  const first = await here.wait();
  const second = await here.wait({ event: "UserPromptSubmit" });
  expect(await first.exited).toBe(0);
  expect(await first.stderr.text()).toBe("");
  expect(here.knock()).toBe(true);
  expect(await second.exited).toBe(2);
});

test("of waiters that start at the same instant one is reachable, and one knock wakes one of them", async () => {
  await using here = await place();
  for (let round = 0; round < 5; round++) {
    const all = Array.from({ length: 4 }, () => here.start({ event: "UserPromptSubmit" }));
    const behind = () => all.filter(({ pid, exitCode }) => exitCode === null && isBehind(pid, here.door));
    const areOpen = () =>
      all.every(
        ({ pid, exitCode }) => exitCode !== null || statSync(`/proc/${pid}/fd/9`, { throwIfNoEntry: false }),
      );
    await until(
      "all have begun, and one is behind the door",
      () => areOpen() && behind().length === 1 && here.files().length === 1,
    );
    const [reachable] = behind();
    expect(here.knock()).toBe(true);
    expect(await reachable?.exited).toBe(2);
    for (const other of all.filter((one) => one !== reachable)) expect(other.exitCode ?? 0).toBe(0);
  }
});

test("a knock at the moment at which one waiter takes over from another is not lost", async () => {
  await using here = await place();
  let former = await here.wait();
  for (let round = 0; round < 25; round++) {
    const next = here.start();
    const isTakingOver = () => here.files().length > 1 || isBehind(next.pid, here.door);
    await until("the next waiter takes over", isTakingOver, { everyMs: round % 2 });
    expect(here.knock()).toBe(true);
    const codes = await until("somebody has woken the session", () => {
      const ended = [former.exitCode, next.exitCode];
      return ended.includes(2) && ended;
    });
    expect(codes).toContain(2);
    former = next.exitCode === null ? next : await here.wait();
    if (former === next) await until("it waits", () => isBehind(next.pid, here.door));
  }
});

test("a knock while nobody waits wakes with the next waiter, however late it comes, unless a prompt shows the mail first", async () => {
  await using here = await place();
  expect(here.knock()).toBe(false);
  expect(here.knock()).toBe(false);
  expect(here.files()).toEqual(["door.wake"]);
  expect(await here.start().exited).toBe(2);
  expect(here.files().toSorted()).toEqual(["door", "door.woken"]);

  rmSync(`${here.door}.woken`);
  expect(here.knock()).toBe(false);
  expect(await here.start({ event: "UserPromptSubmit" }).exited).toBe(2);

  rmSync(`${here.door}.woken`);
  expect(here.knock()).toBe(false);
  await here.at.claude(null).fire("UserPromptSubmit", {}, asThisProcess);
  expect(here.files()).toEqual(["door"]);
  expect((await here.wait({ event: "UserPromptSubmit" })).exitCode).toBeNull();
});

test("whoever knocks while a wake-up is on its way wakes nobody twice, unless nothing comes of it", async () => {
  await using here = await place();
  const waiter = await here.wait();
  expect(here.knock()).toBe(true);
  expect(await waiter.exited).toBe(2);
  expect([here.knock(), here.knock()]).toEqual([true, true]);
  expect(here.files().toSorted()).toEqual(["door", "door.woken"]);
  const next = await here.wait({ event: "UserPromptSubmit" });
  await until("the wake-up has arrived", () => here.files().join() === "door");
  expect(next.exitCode).toBeNull();

  expect(here.knock()).toBe(true);
  expect(await next.exited).toBe(2);
  Bun.spawnSync(["touch", "-d", "10 seconds ago", `${here.door}.woken`]);
  expect(here.knock()).toBe(false);
});

test("a session whose mail was shown meanwhile is not woken for it", async () => {
  await using here = await place();
  const { at } = here;
  await at.send({ to: ["orchestrator"] });
  expect((await at.claude(null).fire("UserPromptSubmit")).stdout).toContain("<overseer-mail");
  await idleOrchestrator(at);
  const waiter = await here.wait();
  const reached = await wakeRecipients(at.project, ["orchestrator"]);
  expect(reached.get("orchestrator")).toMatchObject({ how: "busy", session: { state: "idle" } });
  expect(here.files()).toEqual(["door"]);
  expect(waiter.exitCode).toBeNull();
});

test("whatever stands in the place of the door is left as it is by a knock, and gives way to a waiter", async () => {
  await using here = await place();
  const { at, door } = here;
  const theirs = join(at.scratch, "theirs");
  const fifo = join(at.scratch, "fifo");
  Bun.spawnSync(["mkfifo", fifo]);
  await using reader = fifoReader(fifo);
  const obstacles: Record<string, () => void> = {
    "a file": () => writeFileSync(door, "theirs"),
    "a folder": () => mkdirSync(door),
    "a dangling link": () => symlinkSync(join(at.scratch, "nowhere"), door),
    "a link to itself": () => symlinkSync(door, door),
    "a link to a file": () => symlinkSync(theirs, door),
    "a link to a folder": () => symlinkSync(at.scratch, door),
    "a link to a FIFO": () => symlinkSync(fifo, door),
  };
  for (const [what, put] of Object.entries(obstacles)) {
    writeFileSync(theirs, "theirs");
    put();
    const kind = lstatSync(door).mode;
    expect({ what, isReached: here.knock() }).toEqual({ what, isReached: false });
    dismissWaiters(at.paths);
    expect(lstatSync(door).mode).toBe(kind);
    if (what === "a file") expect(readFileSync(door, "utf8")).toBe("theirs");
    expect(readFileSync(theirs, "utf8")).toBe("theirs");
    expect(readdirSync(at.scratch).toSorted()).toEqual(["fifo", "home", "theirs"]);
    rmSync(`${door}.wake`, { force: true });

    const waiter = await here.wait({ event: "UserPromptSubmit" });
    expect(here.knock()).toBe(true);
    expect({ what, code: await waiter.exited }).toEqual({ what, code: 2 });
    for (const name of readdirSync(at.paths.waiters)) rmSync(join(at.paths.waiters, name));
  }
  expect(reader.child.exitCode).toBeNull();
});

/** Ends with the first line that anybody writes. */
function fifoReader(fifo: string) {
  const child = Bun.spawn(["bash", "-c", `exec 9<>"$0"; read -r <&9`, fifo]);
  return {
    child,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}

test("a folder that is not empty in the place of the door, or none for the doors, means that nobody waits", async () => {
  await using here = await place();
  const { at, door } = here;
  mkdirSync(`${door}/theirs`, { recursive: true });
  expect(here.knock()).toBe(false);
  here.start();
  expect(existsSync(`${door}/theirs`)).toBe(true);
  rmSync(at.paths.waiters, { recursive: true, force: true }); // the waiter is about to do something there
  expect(here.knock()).toBe(false);
  expect(await here.start().exited).toBe(0);
  dismissWaiters(at.paths);
  expect(existsSync(at.paths.waiters)).toBe(false);
  await idleOrchestrator(at);
  const sent = await at.overseer(["mail", "send", "--to", "orchestrator", "--subject", "s", "--body", "b"]);
  expect(sent).toMatchObject({ exitCode: 0, stderr: "" });
  expect(sent.stdout).toContain("it is idle, and sees it with its next prompt");
  expect(at.log("errors.log")).toEqual([]);
});

test("thousands of knocks that nobody hears neither fail nor pile up", async () => {
  await using here = await place();
  for (let count = 0; count < 3_000; count++) expect(here.knock()).toBe(false);
  expect(here.files()).toEqual(["door.wake"]);
  await forgetKnocks(here.at.paths, process.pid);
  const waiter = await here.wait();
  waiter.kill("SIGSTOP");
  // More than a pipe holds.
  for (let count = 0; count < 20_000; count++) expect(here.knock()).toBe(true);
  waiter.kill("SIGCONT");
  expect(await waiter.exited).toBe(2);
});

test("a session whose row says idle and whose process is gone is not knocked at", async () => {
  await using here = await place();
  const { at } = here;
  const gone = at.claude(null);
  await gone.fire("SessionStart", { source: "startup" });
  await gone.die();
  const sent = await at.overseer(["mail", "send", "--to", "orchestrator", "--subject", "s", "--body", "b"]);
  expect(sent.stdout).toContain("nobody is there at the moment");
  expect(readdirSync(at.paths.waiters)).toEqual([]);
});

test("what is left of processes that are gone is cleared away when a session begins, and nothing else", async () => {
  await using here = await place();
  const { waiters } = here.at.paths;
  const orphan = await orphanedWaiter(here.at);
  const dead = Bun.spawn(["true"]);
  await dead.exited;
  for (const name of ["", ".wake", ".woken"]) writeFileSync(join(waiters, `${dead.pid}${name}`), "");
  const beside = join(waiters, String(process.ppid));
  writeFileSync(beside, "");
  await here.wait({ event: "UserPromptSubmit" });
  expect(readdirSync(waiters)).toHaveLength(7);
  await here.wait();
  expect(readdirSync(waiters).toSorted()).toEqual([here.door, beside].map(baseName).toSorted());
  await until("whoever waited for a dead process is gone", () => !isRunning(orphan));
});

/** The pid of a waiter whose Claude Code was killed. */
async function orphanedWaiter(at: TestProject): Promise<number> {
  const command = waiterCommand(at, "orchestrator", "SessionStart");
  const claude = Bun.spawn(["bash", "-c", `bash -c "$0" <<<"{}" & wait`, command], {
    env: cleanEnvironment(ATTENDED),
    stdout: "ignore",
    stderr: "ignore",
  });
  const door = join(at.paths.waiters, String(claude.pid));
  const orphan = await until("the waiter of another process waits", () =>
    childrenOf(claude.pid).find((pid) => isBehind(pid, door)),
  );
  // Not .wake, for which it may still be about to look.
  writeFileSync(`${door}.woken`, "");
  claude.kill("SIGKILL");
  await claude.exited;
  return orphan;
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

test("uninstall sends every waiter away without waking anybody", async () => {
  await using here = await place();
  const waiter = await here.wait();
  expect((await here.at.overseer(["uninstall"])).exitCode).toBe(0);
  expect(await waiter.exited).toBe(0);
  expect(await here.start().exited).toBe(0);
  expect(existsSync(here.at.paths.waiters)).toBe(false);
});

test("a waiter is small, does nothing while it waits, and is gone soon after its claude or its door is gone", async () => {
  await using orphaned = await place();
  await using shut = await place();
  await using replaced = await place();
  await using kept = await place();
  const orphan = await orphanedWaiter(orphaned.at);
  const [shutOut, other, waiter] = await Promise.all([shut.wait(), replaced.wait(), kept.wait()]);
  for (const pid of [orphan, waiter.pid]) expect(residentKb(pid)).toBeLessThan(5_000);
  const ticks = cpuTicks(waiter.pid);

  rmSync(shut.at.paths.waiters, { recursive: true });
  writeFileSync(`${replaced.door}.new`, "");
  renameSync(`${replaced.door}.new`, replaced.door);
  const areGone = () => !isRunning(orphan) && shutOut.exitCode === 0 && other.exitCode === 0;
  await until("they have seen it", areGone, { timeoutMs: 60_000, everyMs: 200 });
  expect(readdirSync(orphaned.at.paths.waiters)).toEqual([]);
  expect(waiter.exitCode).toBeNull();
  // It has looked once meanwhile.
  expect(cpuTicks(waiter.pid) - ticks).toBeLessThanOrEqual(1);
  expect(kept.knock()).toBe(true);
  expect(await waiter.exited).toBe(2);
});

function childrenOf(pid: number): number[] {
  const file = `/proc/${pid}/task/${pid}/children`;
  return existsSync(file) ? readFileSync(file, "utf8").trim().split(" ").map(Number) : [];
}

function residentKb(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}

/** User and system time, of its children as well. */
function cpuTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
}
