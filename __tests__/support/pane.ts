import { claudeBinary } from "./claude.ts";
import type { Fleet } from "./fleet.ts";
import type { Model, ModelRequest } from "./model-server.ts";
import { until } from "./until.ts";

const PATIENT = { timeoutMs: 30_000 };

export function screen(fleet: Fleet, pane: string | null): string {
  return fleet.tmux("capture-pane", "-p", "-J", "-t", pane ?? "");
}

/** As a person at the pane would, without Enter. */
export async function draft(fleet: Fleet, pane: string | null, text: string): Promise<void> {
  fleet.tmux("send-keys", "-t", pane ?? "", "-l", text);
  await until(
    "the pane shows what was typed",
    () => screen(fleet, pane).includes(text.slice(0, 40)),
    PATIENT,
  );
}

export function enter(fleet: Fleet, pane: string | null): void {
  fleet.tmux("send-keys", "-t", pane ?? "", "Enter");
}

/** As a person at a worker's pane would. */
export async function type(fleet: Fleet, name: string, text: string): Promise<void> {
  const { paneId } = await fleet.session(name);
  await draft(fleet, paneId, text);
  enter(fleet, paneId);
}

/** The person's own Claude Code in the main checkout, in a terminal of its own, without a prompt and idle. */
export async function openOrchestrator(
  fleet: Fleet,
  model: Model,
  ...args: string[]
): Promise<AsyncDisposable & { readonly pid: number }> {
  const child = Bun.spawn([claudeBinary, "--permission-mode", "default", ...args], {
    cwd: fleet.root,
    env: { ...fleet.env, ANTHROPIC_BASE_URL: model.url },
    terminal: { cols: 200, rows: 50 },
  });
  const own = () => fleet.open((project) => project.ledger.currentSession("orchestrator"));
  const isIdle = async () => {
    const session = await own();
    return session?.pid === child.pid && session.state === "idle";
  };
  await until("the person's session has begun", isIdle, PATIENT);
  return {
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}

/** What a request shows the model that the one before it did not: a conversation repeats its history each time. */
export function news({ body }: ModelRequest): string {
  const from = body.messages.findLastIndex(({ role }) => role === "assistant") + 1;
  return JSON.stringify(body.messages.slice(from)).replaceAll("\\n", "\n");
}

/** The texts among the news that stand there as a person's own. */
export function promptsIn({ body }: ModelRequest): string[] {
  const from = body.messages.findLastIndex(({ role }) => role === "assistant") + 1;
  const said = body.messages.slice(from).filter(({ role }) => role === "user");
  return said.flatMap(({ content }) => content.flatMap(({ text }) => text ?? []));
}

/** The waiters of a Claude Code process, by pid, and whose they are: `worker` or `orchestrator`. */
export function waitersOf(claudePid: number | null): { pid: number; role: string }[] {
  return waiters().filter((waiter) => waiter.parent === claudePid);
}

/** Every waiter in a repository. */
export function waitersIn({ root }: Fleet): number[] {
  return waiters().flatMap((waiter) => (waiter.root === root ? [waiter.pid] : []));
}

function waiters() {
  const { stdout } = Bun.spawnSync(["ps", "-eo", "pid=,ppid=,args="]);
  return [...stdout.toString().matchAll(/^ *(\d+) +(\d+) bash -p \S+\/waiter\.sh (\w+) (\S+)/gm)].map(
    ([, pid, parent, role = "", root = ""]) => ({ pid: Number(pid), parent: Number(parent), role, root }),
  );
}
