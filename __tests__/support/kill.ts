import { Database } from "bun:sqlite";
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readText } from "../../src/effects/raw-files.ts";
import type { Session } from "../../src/store/contract.ts";
import { claudeBinary } from "./claude.ts";
import { cleanEnvironment, killAfter, OVERSEER } from "./cli.ts";
import type { Fleet, Pane } from "./fleet.ts";
import type { TempFolder } from "./temp.ts";
import { until } from "./until.ts";

const PATIENCE = { timeoutMs: 30_000, everyMs: 2 };

/** An overseer that runs beside the test, to be killed. */
export interface Running {
  /** SIGKILL, at once or at a moment that no condition names, and then its end. */
  kill(afterMs?: number): Promise<void>;
  readonly hasEnded: boolean;
  ended(): Promise<{ exitCode: number; stdout: string; stderr: string }>;
}

export function startOverseer(fleet: Fleet, ...args: string[]): Running {
  const child = Bun.spawn([OVERSEER, ...args], {
    cwd: fleet.root,
    env: cleanEnvironment(fleet.env),
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const texts = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return {
    get hasEnded() {
      return child.exitCode !== null;
    },
    kill: (afterMs = 0) => killAfter(child, afterMs),
    async ended() {
      const [stdout, stderr] = await texts;
      return { exitCode: await child.exited, stdout, stderr };
    },
  };
}

const REAL = { git: Bun.which("git") ?? "git", tmux: Bun.which("tmux") ?? "tmux", claude: claudeBinary };
type Program = keyof typeof REAL;

/** A program that goes on only when the test lets it, at the calls whose arguments contain the gate's words. */
export interface Gate {
  /** For `git.bin`, `tmux.bin` or `claude.bin`. */
  readonly bin: string;
  /** `before`: it has not begun yet when it waits; `after`: it has done its work, and has not said so. */
  close(words: string, when?: "before" | "after"): void;
  /** Waits until a call stands at the gate. */
  reached(): Promise<void>;
  /** Lets everybody through, and waits for the end of the call that stood there, whoever asked for it. */
  open(): Promise<void>;
}

export function gateFor(program: Program, folder: TempFolder): Gate {
  const file = (name: string) => join(folder.path, `${program}-${name}`);
  const [closed, mark] = [file("closed"), file("reached")];
  const bin = folder.write(`${program}-gated`, gateScript(REAL[program], closed, mark), 0o755);
  return {
    bin,
    close(words, when = "before") {
      rmSync(mark, { force: true });
      writeFileSync(closed, `${when} ${words}\n`);
    },
    async reached() {
      await until(`${program} stands at its gate`, () => pidIn(mark) > 0, PATIENCE);
    },
    async open() {
      rmSync(closed, { force: true });
      // The pane's own process is meant to go on.
      if (program !== "claude")
        await until(`the gated ${program} has ended`, () => !isRunning(pidIn(mark)), PATIENCE);
    },
  };
}

function pidIn(file: string): number {
  return existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
}

function gateScript(real: string, closed: string, mark: string): string {
  return `#!/bin/sh
wait_here() {
  echo $$ > '${mark}'
  while [ -f '${closed}' ]; do sleep 0.02; done
}
when=
if [ -f '${closed}' ] && read -r when words < '${closed}'; then
  case " $* " in *"$words"*) ;; *) when= ;; esac
fi
case $when in
  before) wait_here ;;
  after) '${real}' "$@"; code=$?; wait_here; exit $code ;;
esac
exec '${real}' "$@"
`;
}

export interface SpawnRow {
  id: string;
  step: string;
  state: string;
  /** The process of `worktrees.setup`, once it is noted. */
  setup: string | null;
}

/** The newest spawn of a name as others see it, read without any of overseer's own code. */
export function spawnOf(fleet: Fleet, name: string): SpawnRow | null {
  using ledger = readLedger(fleet);
  return ledger
    .query<SpawnRow, [string]>(
      `SELECT id, state, payload ->> 'step' AS step, payload ->> 'setup' AS setup FROM actions WHERE kind = 'spawn' AND subject = ?
       ORDER BY created_at DESC LIMIT 1`,
    )
    .get(name);
}

export function readLedger({ root }: Fleet): Database {
  const ledger = new Database(join(root, ".overseer/sessions.db"), { readonly: true });
  // Whoever closes the database last, or was killed with it open, locks it for a moment.
  ledger.run("PRAGMA busy_timeout = 10000");
  return ledger;
}

/** Every row of every table of the ledger. */
export function ledgerRows(fleet: Fleet): Record<string, unknown[]> {
  using ledger = readLedger(fleet);
  const tables = ledger
    .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'")
    .all();
  return Object.fromEntries(tables.map(({ name }) => [name, ledger.query(`SELECT * FROM ${name}`).all()]));
}

/**
 * Makes steps of a spawn last long enough to be seen: before the next is noted, or the process of the setup, SQLite is
 * given something to count. Whoever is killed while it counts has not noted it.
 */
export function slowDown({ root }: Fleet, steps: readonly string[]): Disposable {
  const file = join(root, ".overseer/sessions.db");
  const change = (sql: string) => {
    using ledger = new Database(file);
    ledger.run("PRAGMA busy_timeout = 10000");
    ledger.run(sql);
  };
  const listed = steps.map((step) => `'${step}'`).join(", ");
  change(`CREATE TRIGGER slow_steps BEFORE UPDATE OF payload ON actions
    WHEN OLD.payload ->> 'step' IN (${listed}) AND (
      NEW.payload ->> 'step' <> OLD.payload ->> 'step' OR NEW.payload ->> 'setup' IS NOT OLD.payload ->> 'setup'
    )
    BEGIN
      SELECT sum(n) FROM (
        WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1500000)
        SELECT n FROM counted
      );
    END`);
  return { [Symbol.dispose]: () => change("DROP TRIGGER slow_steps") };
}

/** Whatever runs in a folder or below it, by pid. */
export function processesIn(folder: string): number[] {
  const pids = readdirSync("/proc").map(Number).filter(Number.isInteger);
  return pids.filter((pid) => {
    // What is left of one whose folder was removed.
    const cwd = linkOf(`/proc/${pid}/cwd`).replace(/ \(deleted\)$/, "");
    return cwd === folder || cwd.startsWith(`${folder}/`);
  });
}

/** Its words; empty when it has ended. */
export function commandOf(pid: number): string {
  return (readText(`/proc/${pid}/cmdline`) ?? "").replaceAll("\0", " ").trim();
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ""; // it has ended, or is somebody else's
  }
}

/** Not even a defunct one counts as running. */
export function isRunning(pid: number | null): boolean {
  // One that ends right now cannot be read any more.
  const stat = pid === null ? "" : (readText(`/proc/${pid}/stat`) ?? "");
  return stat !== "" && stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
}

/** SIGKILL to one process: 0 and negative numbers would mean whole groups, the tests' own among them. */
export function killHard(pid: number): void {
  if (!(pid > 1)) throw new Error(`${pid} is no process to kill`);
  process.kill(pid, "SIGKILL");
}

/** `kill -9` of a worker's claude; returns when it is gone. */
export async function killClaude({ name, pid }: Session): Promise<void> {
  if (pid === null) throw new Error(`${name} has no process`);
  killHard(pid);
  await until(`${name}'s claude is gone`, () => !isRunning(pid), PATIENCE);
}

/** By words: without a locale tmux writes every tab as an underscore. */
export function panesOf(fleet: Fleet): Pane[] {
  const format = "#{session_name} #{pane_id} #{pane_pid} #{pane_dead}";
  const lines = fleet.tmux("list-panes", "-a", "-F", format).split("\n");
  return lines.flatMap((line) => {
    const [session = "", id = "", pid = "", dead = ""] = line.split(" ");
    return id === "" ? [] : [{ session, id, pid: Number(pid), isDead: dead === "1" }];
  });
}

/** What a spawn that came to nothing has left, in words; empty when it is nothing. */
export async function remainsOf(fleet: Fleet, name: string): Promise<string[]> {
  const { root, repo } = fleet;
  const folder = fleet.worktree(name);
  const agentFiles = join(root, ".overseer/agents", name);
  const launches = existsSync(agentFiles)
    ? readdirSync(agentFiles).filter((file) => /^launch-|-index-\d+$|\.overseer-\d+$/.test(file))
    : [];
  const sessions = await fleet.open((project) => project.ledger.pastSessions({ name }));
  const live = sessions.filter(({ endedAt }) => endedAt === null);
  const open = await fleet.open((project) => project.ledger.openActions("spawn"));
  return [
    ...repo.git("for-each-ref", "--format=%(refname)", `refs/heads/overseer/${name}`).split("\n"),
    existsSync(folder) ? `folder ${folder}` : "",
    repo.git("worktree", "list", "--porcelain").includes(`${folder}\n`) ? `git's record of ${folder}` : "",
    ...panesOf(fleet)
      .filter(({ session }) => session === `overseer-${name}`)
      .map(({ id }) => `pane ${id}`),
    ...live.map(({ id, state }) => `row ${id} ${state}`),
    ...open.filter(({ subject }) => subject === name).map(({ id, state }) => `action ${id} ${state}`),
    ...launches,
    ...processesIn(folder).map((pid) => `process ${pid}`),
  ].filter((remain) => remain !== "");
}
