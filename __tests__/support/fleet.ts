import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { tmuxSocket } from "../../src/effects/tmux.ts";
import type { Project } from "../../src/flows/project.ts";
import type { Session } from "../../src/store/contract.ts";
import { type ClaudeHome, claudeBinary, claudeEnvironment, claudeHome } from "./claude.ts";
import { type Answer, type CallOptions, overseer, withProject } from "./cli.ts";
import { type Model, startModel } from "./model-server.ts";
import { type TempFolder, type TempRepo, type TempRepoOptions, tempFolder, tempRepo } from "./temp.ts";
import { until } from "./until.ts";

export interface FleetOptions extends TempRepoOptions {
  /** Lines for `.overseer/config.yaml`. */
  config?: string;
  /** The stories of the model; without any, whoever asks is told "done". */
  tell?: (model: Model) => void;
  /** A repository that is there already. */
  repo?: TempRepo;
}

export interface Pane {
  session: string;
  id: string;
  pid: number;
  isDead: boolean;
}

/** A repository after `overseer init`, the real claude in a home of its own, a scripted model, tmux on its own socket. */
export interface Fleet extends AsyncDisposable {
  readonly repo: TempRepo;
  readonly root: string;
  readonly home: ClaudeHome;
  readonly model: Model;
  readonly socket: string;
  /** What a person's shell has: the model as endpoint, claude on PATH. */
  readonly env: Record<string, string>;
  overseer(args: readonly string[], options?: CallOptions & { cwd?: string }): Promise<Answer>;
  /** Slings a builder, unless the arguments say otherwise, and expects that to succeed. */
  sling(name: string, what: string, ...args: string[]): Promise<AgentView>;
  open<T>(work: (project: Project) => Promise<T>): Promise<T>;
  session(name: string): Promise<Session>;
  /** Waits until the newest incarnation of a name is in a state, such as `idle` or `waiting: permission`. */
  untilState(name: string, state: string): Promise<Session>;
  panes(): Pane[];
  worktree(name: string): string;
  /** Runs git in a worker's worktree, as a person would, and returns its trimmed output. */
  gitIn(name: string, ...args: string[]): string;
  tmux(...args: string[]): string;
}

export interface AgentView {
  name: string;
  state: string;
  taskId: string;
  branch: string;
  worktree: string;
  pid: number;
  parent: string;
  depth: number;
}

export async function startFleet(options: FleetOptions = {}): Promise<Fleet> {
  const repo = options.repo ?? tempRepo(options);
  const outside = tempFolder("overseer-fleet-");
  mkdirSync(join(outside.path, "home"));
  const home = claudeHome(join(outside.path, "home"), { trusted: [repo.path] });
  const model = startModel(options.tell ?? quiet);
  const path = `${dirname(claudeBinary)}:${process.env.PATH}`;
  const env = claudeEnvironment({ home, model, env: { PATH: path } });
  const fleet = makeFleet({ repo, outside, home, model, env });
  const init = await fleet.overseer(["init"]);
  if (init.exitCode !== 0) throw new Error(`overseer init failed: ${init.stderr}`);
  if (options.config !== undefined) repo.write(".overseer/config.yaml", options.config);
  return fleet;
}

function quiet(model: Model): void {
  model.whenPrompt(/./).says("Done.").mayGoOn();
}

interface Parts {
  repo: TempRepo;
  outside: TempFolder;
  home: ClaudeHome;
  model: Model;
  env: Record<string, string>;
}

function makeFleet({ repo, outside, home, model, env }: Parts): Fleet {
  const root = repo.path;
  const socket = tmuxSocket(root);
  const tmux = (...args: string[]) => {
    const child = Bun.spawnSync(["tmux", "-u", "-L", socket, ...args], { env: { PATH: env.PATH ?? "" } });
    return child.stdout.toString().trimEnd();
  };
  const fleet: Fleet = {
    repo,
    root,
    home,
    model,
    socket,
    env,
    overseer: (args, given = {}) =>
      overseer(given.cwd ?? root, args, { ...given, env: { ...env, ...given.env } }),
    async sling(name, what, ...args) {
      const role = args.includes("--capability") ? [] : ["--capability", "builder"];
      const answer = await fleet.overseer(["sling", what, "--name", name, ...role, ...args, "--json"]);
      return answer.data<{ agent: AgentView }>().agent;
    },
    open: (work) => withProject(root, work),
    session: (name) =>
      fleet.open(async (project) => {
        const session = await project.ledger.currentSession(name);
        if (!session) throw new Error(`there is no session of ${name}`);
        return session;
      }),
    untilState: (name, state) =>
      until(
        `${name} is ${state}`,
        async () => {
          const session = await fleet.session(name);
          const now = session.reason ? `${session.state}: ${session.reason}` : session.state;
          return now === state ? session : null;
        },
        { timeoutMs: 30_000, everyMs: 30 },
      ),
    panes() {
      const format = "#{session_name}\t#{pane_id}\t#{pane_pid}\t#{pane_dead}";
      const lines = tmux("list-panes", "-a", "-F", format).split("\n");
      return lines.flatMap((line) => {
        const [session = "", id = "", pid = "", dead = ""] = line.split("\t");
        return id === "" ? [] : [{ session, id, pid: Number(pid), isDead: dead === "1" }];
      });
    },
    worktree: (name) => join(root, ".overseer/worktrees", name),
    gitIn: (name, ...args) => repo.git("-C", fleet.worktree(name), ...args),
    tmux,
    async [Symbol.asyncDispose]() {
      endFleet(fleet);
      await model.stop();
      repo.remove();
      outside.remove();
    },
  };
  return fleet;
}

/** By pid, and only what runs below this fleet's own tmux server. */
function endFleet({ socket, tmux, panes }: Fleet): void {
  const pids = panes().map(({ pid }) => pid);
  tmux("kill-server");
  for (const pid of pids) {
    if (isOurs(pid)) process.kill(pid, "SIGKILL");
  }
  rmSync(`/tmp/tmux-${process.getuid?.() ?? 0}/${socket}`, { force: true });
}

function isOurs(pid: number): boolean {
  const file = `/proc/${pid}/cmdline`;
  return existsSync(file) && /claude|launch\.js/.test(readFileSync(file, "utf8"));
}
