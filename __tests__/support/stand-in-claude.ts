import { Database } from "bun:sqlite";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { processMark } from "../../src/effects/processes.ts";
import { type SnapshotOptions, snapshot } from "./cli.ts";
import { type AgentView, type Fleet, type FleetOptions, startFleet } from "./fleet.ts";
import { gitIsolation, type TempFolder, type TempRepo } from "./temp.ts";
import { until } from "./until.ts";

/** As `claude.bin`: starts in a few milliseconds, and says and does only what a test tells it to. */
export const standInClaude = join(import.meta.dir, "stand-in-claude.sh");

/** A fleet whose workers are stand-ins. With `STAND_IN_DOES` in the environment of a sling, a worker does that. */
export function standInFleet({ config = "", ...options }: FleetOptions = {}): Promise<Fleet> {
  return startFleet({ ...options, config: `claude: { bin: ${JSON.stringify(standInClaude)} }\n${config}` });
}

/** A worker that has died right after its start, with its worktree as it was made, and a pane that shows its end. */
export async function deadWorker(fleet: Fleet, name: string, ...args: string[]): Promise<AgentView> {
  const words = [
    "sling",
    `The work of ${name}`,
    "--name",
    name,
    "--capability",
    "builder",
    ...args,
    "--json",
  ];
  const answer = await fleet.overseer(words, { env: { STAND_IN_ENDS: "1" } });
  const { agent } = answer.data<{ agent: AgentView }>();
  await until(`${name} has died`, async () => !(await isAlive(agent.pid)), { timeoutMs: 30_000 });
  return agent;
}

/** tmux leaves some that have ended as defunct ones for a long time. */
export async function isAlive(pid: number): Promise<boolean> {
  return (await processMark(pid)) !== null;
}

/** `overseer task close` of its own task, for `STAND_IN_DOES`. */
export const CLOSE_TASK = `overseer task close "$(git branch --show-current | sed 's|.*/||')" --reason finished`;

/** A repository inside of a folder, under any name; it goes with the folder. */
export function repoAt(outer: TempFolder, name: string, files: Record<string, string>): TempRepo {
  const path = join(outer.path, name);
  mkdirSync(path);
  const git = (...args: string[]) => gitAt(path, args);
  const write: TempRepo["write"] = (file, content, mode) => outer.write(join(name, file), content, mode);
  git("init", "--quiet", "--initial-branch=main");
  git("config", "user.name", "Test");
  git("config", "user.email", "test@example.invalid");
  for (const [file, content] of Object.entries(files)) write(file, content);
  git("add", "--all");
  git("commit", "--quiet", "--message", "first");
  return { path, git, write, remove: outer.remove, [Symbol.dispose]: outer.remove };
}

/** git as a person would run it, with nothing of the tester's; what it printed, without the last line feed. */
export function gitAt(cwd: string, args: readonly string[], env: Record<string, string> = {}): string {
  const own = { PATH: process.env.PATH ?? "/usr/bin:/bin", HOME: "/dev/null", ...gitIsolation, ...env };
  const { exitCode, stdout, stderr } = Bun.spawnSync(["git", ...args], { cwd, env: own });
  if (exitCode !== 0) throw new Error(`git ${args.join(" ")} failed in ${cwd}: ${stderr}`);
  return stdout.toString().replace(/\n$/, "");
}

/** The files of a checkout without git's own and without the worker's instructions. */
export function filesIn(checkout: string, options: SnapshotOptions = {}) {
  const isNotWork = (path: string) => /^\.git(?:\/|$)|^\.claude(?:\/CLAUDE\.md|\/\.gitignore)?$/.test(path);
  return snapshot(checkout, { ...options, except: isNotWork });
}

/** The names of the tmux sessions that have a pane, also one whose process has ended. */
export function paneNames(fleet: Fleet): string[] {
  const names = fleet.tmux("list-panes", "-a", "-F", "#{session_name}").split("\n");
  return names.filter((name) => name !== "");
}

export function refsOf(fleet: Fleet): string[] {
  return fleet.repo.git("for-each-ref", "--format=%(refname) %(objectname)").split("\n");
}

export function rescueRefs(fleet: Fleet): string[] {
  return refsOf(fleet).filter((ref) => ref.startsWith("refs/overseer/"));
}

/** Every row of both databases. */
export function rowsOf(fleet: Fleet): Record<string, unknown[]> {
  const files = ["sessions.db", "mail.db"].map((file) => join(fleet.root, ".overseer", file));
  return Object.assign({}, ...files.filter(existsSync).map(rowsIn));
}

function rowsIn(file: string): Record<string, unknown[]> {
  using db = new Database(file, { readwrite: true });
  db.run("PRAGMA busy_timeout = 5000");
  const tables = db.query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  return Object.fromEntries(tables.map(({ name }) => [name, db.query(`SELECT * FROM "${name}"`).all()]));
}

/** All that a command which changes nothing must leave as it is: refs, rows, and a worktree to the byte. */
export function wholeState(fleet: Fleet, ...names: string[]) {
  const worktrees = names.map((name) => {
    const path = fleet.worktree(name);
    if (!existsSync(path)) return [name, null];
    const index = join(fleet.root, ".git/worktrees", name, "index");
    const bytes = existsSync(index) ? Bun.hash(readFileSync(index)).toString(16) : null;
    return [name, { files: snapshot(path, { hasTimes: true, except: isGitOwn }), index: bytes }];
  });
  return {
    refs: refsOf(fleet),
    head: fleet.repo.git("status", "--porcelain=v2", "--branch"),
    rows: rowsOf(fleet),
    worktrees: Object.fromEntries(worktrees),
    panes: paneNames(fleet),
  };
}

function isGitOwn(path: string): boolean {
  return /(?:^|\/)\.git\//.test(path);
}

/** A worker that does what a script says, commits it, closes its task, and has gone. */
export async function completedWorker(fleet: Fleet, name: string, script: string, ...args: string[]) {
  const words = [
    "sling",
    `The work of ${name}`,
    "--name",
    name,
    "--capability",
    "builder",
    ...args,
    "--json",
  ];
  const doing = `set -e\n${script}\n${CLOSE_TASK}`;
  const answer = await fleet.overseer(words, { env: { STAND_IN_DOES: doing } });
  const { agent } = answer.data<{ agent: AgentView }>();
  const isDone = () => {
    const actions = rowsOf(fleet).actions as { kind: string; subject: string; state: string }[];
    return actions.some((act) => act.kind === "complete" && act.subject === name && act.state === "done");
  };
  await until(`${name} has completed`, isDone, { timeoutMs: 30_000 });
  return agent;
}
