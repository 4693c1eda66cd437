import { existsSync, realpathSync } from "node:fs";
import { OverseerError } from "../domain/errors.ts";
import type { HookEvent } from "../domain/hook-event.ts";
import { readPayload } from "../domain/hook-payload.ts";
import { systemClock } from "../effects/clock.ts";
import { type Git, gitAt } from "../effects/git.ts";
import { packageFile } from "../effects/package.ts";
import { type Paths, pathsOf } from "../effects/paths.ts";
import { findRoot, isInstalled } from "../effects/root.ts";
import { startDetached } from "../effects/run.ts";
import { type Tmux, tmuxAt, tmuxSocket } from "../effects/tmux.ts";
import { assertOwnName, identify } from "../flows/caller.ts";
import { canonicalBranch } from "../flows/canonical-branch.ts";
import type { LoadedConfig } from "../flows/config.ts";
import { unknownAgent } from "../flows/prime.ts";
import type { Caller, Environment, Project } from "../flows/project.ts";
import type { Ledger } from "../store/contract.ts";
import type { MailStore } from "../store/mail-contract.ts";
import { openLedger } from "../store/sqlite/ledger.ts";
import { openMail } from "../store/sqlite/mail.ts";
import { exitCodeOf } from "./exit-code.ts";
import type { Output } from "./output.ts";

/** What a command is given. Everything behind it is opened on first use. */
export class Context {
  readonly output: Output;
  readonly env: Environment;
  readonly cwd: string;
  readonly git: Git;
  readonly clock = systemClock;
  exitCode = 0;
  #project: OpenProject | null = null;

  constructor(output: Output, env: Environment, cwd: string) {
    this.output = output;
    this.env = env;
    this.cwd = realFolder(cwd);
    this.git = gitAt(async () => "git", env);
  }

  /** The project around the working directory. */
  get project(): Project {
    return this.#project ?? this.openAt(pathsOf(this.#installedRoot()));
  }

  /** The same, or what an init that was killed left of one: to be taken out. */
  get remains(): Project {
    const root = this.#root();
    return root !== null && existsSync(pathsOf(root).home) ? this.openAt(pathsOf(root)) : this.project;
  }

  openAt(paths: Paths): Project {
    this.#project = new OpenProject(this, paths);
    return this.#project;
  }

  /** The same project with nothing open. */
  reopen(): Project {
    const { paths } = this.project;
    this.close();
    return this.openAt(paths);
  }

  /** Ends the command with the exit code of this error, after its result has been printed. */
  fail(error: OverseerError): void {
    this.exitCode = exitCodeOf(error);
  }

  /** Handles a hook event as the hooks themselves do: `agent`, the worker that calls, or the orchestrator. */
  async hook(event: HookEvent, agent: string | undefined): Promise<void> {
    const { project } = this;
    const caller = await this.caller();
    assertOwnName(caller, agent, "--agent");
    const name = caller.kind === "worker" ? caller.name : agent;
    const session = name === undefined ? null : await project.ledger.currentSession(name);
    if (name !== undefined && !session) throw await unknownAgent(project, name);
    const payload = readPayload(await this.stdin());
    if (!payload) {
      throw new OverseerError("usage", "standard input is not a JSON object", {
        hint: "give the event's JSON as Claude Code gives it to a hook",
      });
    }
    const { handleHook } = await import("../hooks/handle.ts");
    const { handleSessionStart } = await import("../hooks/prime.ts");
    let kept = "";
    const { handleToolStart } = await import("../hooks/guard.ts");
    const own = { SessionStart: handleSessionStart, PreToolUse: handleToolStart };
    const handle = event === "SessionStart" || event === "PreToolUse" ? own[event] : handleHook;
    await handle({
      event,
      payload,
      root: project.paths.root,
      worker: session && { sessionId: session.id },
      agent: session?.name ?? null,
      env: this.env,
      claudePid: Number(this.env.CLAUDE_PID) || process.ppid,
      now: this.clock.now(),
      // At once: what is printed is handed over to the session right after.
      print: (text) => {
        if (this.output.isJson) kept += text;
        else this.output.raw(text);
      },
      finish: async (...words) =>
        startDetached([packageFile("bin", "overseer"), "finish", ...words], project.paths.root),
    });
    this.output.done({ output: kept }, () => "");
  }

  caller(): Promise<Caller> {
    return identify(this.project);
  }

  async stdin(): Promise<string> {
    return await Bun.stdin.text();
  }

  close(): void {
    this.#project?.close();
  }

  #root(): string | null {
    return this.env.OVERSEER_ROOT ?? findRoot(this.cwd);
  }

  #installedRoot(): string {
    const root = this.#root();
    if (root !== null && isInstalled(pathsOf(root))) return root;
    throw new OverseerError("not_initialised", `${root ?? this.cwd} is not set up for overseer yet`, {
      hint: root === null ? "git init, commit something, then overseer init" : "overseer init",
    });
  }
}

function realFolder(cwd: string): string {
  if (existsSync(cwd)) return realpathSync(cwd);
  throw new OverseerError("not_initialised", "the working directory is gone", {
    hint: "cd to a folder that is still there",
  });
}

/** A path in the configuration is relative to the root, wherever the program is started. */
function programAt(bin: string, root: string): string {
  return bin.includes("/") && !bin.startsWith("/") ? `${root}/${bin}` : bin;
}

class OpenProject implements Project {
  readonly paths: Paths;
  readonly clock = systemClock;
  readonly git: Git;
  readonly env: Environment;
  readonly cwd: string;
  #ledger: Ledger | null = null;
  #mail: MailStore | null = null;
  #config: Promise<LoadedConfig> | null = null;
  /** Before the configuration is known that may name another one. */
  readonly #plainGit: Git;

  constructor(context: Context, paths: Paths) {
    this.paths = paths;
    this.env = context.env;
    this.cwd = context.cwd;
    this.#plainGit = context.git;
    this.git = gitAt(async () => programAt((await this.config()).config.git.bin, paths.root), context.env);
  }

  get ledger(): Ledger {
    this.#ledger ??= openLedger(this.paths.ledger, { mayUpgrade: true });
    return this.#ledger;
  }

  get mail(): MailStore {
    this.#mail ??= openMail(this.paths.mail, { mayUpgrade: true });
    return this.#mail;
  }

  async tmux(): Promise<Tmux> {
    const { config } = await this.config();
    return tmuxAt(programAt(config.tmux.bin, this.paths.root), tmuxSocket(this.paths.root), this.env);
  }

  config(): Promise<LoadedConfig> {
    this.#config ??= this.#loadConfig();
    return this.#config;
  }

  // Loaded only when asked for: yaml and zod take longer to load than most commands take to run.
  async #loadConfig(): Promise<LoadedConfig> {
    const { loadConfig } = await import("../flows/config.ts");
    return await loadConfig(this.paths.root, {
      canonicalBranch: () => canonicalBranch(this.#plainGit, this.paths.root),
    });
  }

  close(): void {
    this.#ledger?.close();
    this.#mail?.close();
    this.#ledger = null;
    this.#mail = null;
  }
}
