/** What the demo needs to be told: a throwaway repository, the real claude, a model that reads from a script, a voice. */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { claudeBinary, claudeEnvironment, claudeHome } from "../__tests__/support/claude.ts";
import { type Model, startModel } from "../__tests__/support/model-server.ts";
import { until } from "../__tests__/support/until.ts";
import { packageFile } from "../src/effects/package.ts";
import { type Tmux, tmuxAt, tmuxSocket } from "../src/effects/tmux.ts";

const isColourful = process.stdout.isTTY === true && !process.env.NO_COLOR;
const paint = (code: number) => (text: string) => (isColourful ? `\u001b[${code}m${text}\u001b[0m` : text);
const bold = paint(1);
const dim = paint(2);
const cyan = paint(36);

export function chapter(title: string): void {
  console.log(`\n${bold(title)}`);
}

export function say(text: string): void {
  console.log(text.replaceAll(/^/gm, "  "));
}

export interface Agent {
  name: string;
  state: string;
}

export class Stage {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), "overseer-demo-")));
  readonly root = join(this.folder, "shop");
  readonly model: Model;
  readonly #env: Record<string, string>;
  readonly #tmux: Tmux;

  constructor(tell: (model: Model, root: string) => void) {
    this.model = startModel((model) => tell(model, this.root));
    mkdirSync(join(this.folder, "home"));
    const home = claudeHome(join(this.folder, "home"), { trusted: [this.root] });
    const path = `${packageFile("bin")}:${dirname(claudeBinary)}:${process.env.PATH}`;
    this.#env = claudeEnvironment({ home, model: this.model, env: { PATH: path } });
    this.#tmux = tmuxAt("tmux", tmuxSocket(this.root), this.#env);
  }

  /** A repository with one commit. */
  async found(files: Readonly<Record<string, string>>): Promise<void> {
    await this.#run(["git", "init", "--quiet", "--initial-branch=main", this.root], this.folder);
    await this.#run(["git", "config", "user.name", "Demo"]);
    await this.#run(["git", "config", "user.email", "demo@localhost"]);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(this.root, name), text);
    await this.#run(["git", "add", "--all"]);
    await this.#run(["git", "commit", "--quiet", "--message", "Begin"]);
  }

  /** The person's own Claude Code, in a pane of its own; it may use overseer without asking. */
  async sit(): Promise<void> {
    const variables = Object.entries(this.#env).map(([name, value]) => `${name}=${value}`);
    const settings = ["--permission-mode", "dontAsk", "--allowedTools", "Bash(overseer *)"];
    const claude = ["env", "-i", ...variables, claudeBinary, ...settings];
    await this.#tmux.open("you", ["sh", "-c", 'cd "$0" && exec "$@"', this.root, ...claude]);
    await this.until("the orchestrator is at its prompt", (agents) =>
      agents.some(({ name, state }) => name === "orchestrator" && state === "idle"),
    );
  }

  has(file: string): boolean {
    return existsSync(join(this.root, file));
  }

  /** Types `overseer ...` and shows what it says. */
  async type(...args: string[]): Promise<void> {
    const words = args.map((arg) => (/^[\w./,@-]+$/.test(arg) ? arg : JSON.stringify(arg)));
    console.log(`  ${cyan(`$ overseer ${words.join(" ")}`)}`);
    const said = await this.overseer(...args);
    console.log(said.trimEnd().replaceAll(/^/gm, dim("  | ")));
  }

  async overseer(...args: string[]): Promise<string> {
    return await this.#run([packageFile("bin", "overseer"), ...args]);
  }

  /** Waits until the agents are as the demo wants to show them. */
  async until(what: string, isSo: (agents: readonly Agent[]) => boolean): Promise<void> {
    const look = async () => {
      const { agents, orchestrator } = JSON.parse(await this.overseer("status", "--json")).data;
      return isSo([...agents, ...orchestrator]);
    };
    await until(what, look, { timeoutMs: 60_000, everyMs: 100 });
  }

  /** Nothing goes on running; the folder stays. */
  async end(): Promise<void> {
    await this.#tmux.end();
    await this.model.stop();
  }

  /** Not spawnSync: the model answers from this very process. */
  async #run(argv: string[], cwd = this.root): Promise<string> {
    const child = Bun.spawn(argv, { cwd, env: this.#env, stdout: "pipe", stderr: "pipe", stdin: "ignore" });
    const [stdout, stderr, exitCode] = await Promise.all([
      child.stdout.text(),
      child.stderr.text(),
      child.exited,
    ]);
    if (exitCode !== 0) throw new Error(`${argv.join(" ")} failed: ${stderr}${stdout}`);
    return stdout;
  }
}
