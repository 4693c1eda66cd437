/** What the demo needs to be told: a throwaway repository, processes that play agents, and a voice. */
import { mkdtempSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Context } from "../src/cli/context.ts";
import { Output } from "../src/cli/output.ts";
import { packageFile } from "../src/effects/package.ts";
import { type Registration, registerWorker } from "../src/flows/register.ts";

const isColourful = process.stdout.isTTY === true && !process.env.NO_COLOR;
const paint = (code: number) => (text: string) => (isColourful ? `\u001b[${code}m${text}\u001b[0m` : text);
const bold = paint(1);
const dim = paint(2);

export function chapter(title: string): void {
  console.log(`\n${bold(title)}`);
}

export function say(text: string): void {
  console.log(`  ${text}`);
}

export function quote(text: string): void {
  const lines = text.trimEnd().split("\n");
  console.log(lines.map((line) => dim(`    | ${line}`)).join("\n"));
}

export class Stage {
  readonly root: string;
  readonly #env: Record<string, string>;
  readonly #actors: Actor[] = [];

  constructor() {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "overseer-demo-")));
    this.root = join(folder, "shop");
    const who = { NAME: "Demo", EMAIL: "demo@localhost" };
    this.#env = {
      PATH: process.env.PATH ?? "",
      HOME: join(folder, "home"),
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_AUTHOR_NAME: who.NAME,
      GIT_AUTHOR_EMAIL: who.EMAIL,
      GIT_COMMITTER_NAME: who.NAME,
      GIT_COMMITTER_EMAIL: who.EMAIL,
    };
    this.#run(["git", "init", "-q", "-b", "main", this.root], folder);
    this.#run(["git", "commit", "-q", "--allow-empty", "-m", "Begin"]);
  }

  /** `overseer ...` typed by the person, or by the agent that is given. */
  overseer(args: string[], as?: Actor | "orchestrator"): string {
    const env = as === "orchestrator" ? { CLAUDECODE: "1" } : (as?.env ?? {});
    return this.#run([packageFile("bin", "overseer"), ...args], this.root, env);
  }

  async register(registration: Registration): Promise<Record<string, string>> {
    const silent = {
      stdout() {},
      stderr() {},
      async flushed() {},
      isTerminal: false,
      isErrorTerminal: false,
    };
    const context = new Context(await Output.open(silent, "demo", false, false), this.#env, this.root);
    const { token } = await registerWorker(context.project, registration);
    context.close();
    return { OVERSEER_TOKEN: token, OVERSEER_AGENT_NAME: registration.name, OVERSEER_ROOT: this.root };
  }

  enter(name: string, role: "worker" | "orchestrator", env: Record<string, string> = {}): Actor {
    const actor = new Actor(name, role, this.root, { ...this.#env, ...env });
    this.#actors.push(actor);
    return actor;
  }

  end(): void {
    for (const actor of this.#actors) actor.kill();
  }

  #run(argv: string[], cwd = this.root, env: Record<string, string> = {}): string {
    const { exitCode, stdout, stderr } = Bun.spawnSync(argv, { cwd, env: { ...this.#env, ...env } });
    if (exitCode !== 0) throw new Error(`${argv.join(" ")} failed: ${stderr.toString()}`);
    return stdout.toString();
  }
}

/** One process that plays a Claude Code session. */
export class Actor {
  readonly env: Record<string, string>;
  readonly #child;
  readonly #lines;

  constructor(name: string, role: string, root: string, env: Record<string, string>) {
    this.env = env;
    const argv = [
      process.execPath,
      packageFile("demo", "agent.ts"),
      role,
      root,
      `${name}-${crypto.randomUUID()}`,
    ];
    this.#child = Bun.spawn(argv, { stdin: "pipe", stdout: "pipe", stderr: "inherit", env });
    this.#lines = linesOf(this.#child.stdout);
  }

  /** Fires a hook event; returns the text that the model would be shown. */
  async hook(event: string, payload: Record<string, unknown> = {}): Promise<string> {
    this.#child.stdin.write(`${JSON.stringify({ event, ...payload })}\n`);
    this.#child.stdin.flush();
    const { value } = await this.#lines.next();
    if (!value) throw new Error(`the agent ended before it answered ${event}`);
    return textFor(JSON.parse(value).shown);
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}

/** The hooks answer some events with JSON; the model sees the text in it. */
function textFor(shown: string): string {
  if (!shown.startsWith("{")) return shown;
  const answer = JSON.parse(shown);
  return answer.reason ?? answer.hookSpecificOutput?.additionalContext ?? "";
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
