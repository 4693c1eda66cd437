import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gitIsolation } from "./temp.ts";

const DEFAULT_DEADLINE_MS = 60_000;
/** After a polite SIGTERM, so that claude can end the commands it started. */
const GRACE_MS = 2_000;

export const claudeBinary = join(import.meta.dir, "../../node_modules/.bin/claude");

export interface ClaudeHome {
  readonly path: string;
  readonly apiKey: string;
}

export interface ClaudeHomeOptions {
  /** Roots of main checkouts whose trust dialog counts as answered; their worktrees are covered. */
  trusted?: readonly string[];
  apiKey?: string;
}

export interface ClaudeEnvironmentOptions {
  home: ClaudeHome;
  model: { readonly url: string };
  env?: Record<string, string>;
}

export interface ClaudeOptions extends ClaudeEnvironmentOptions {
  cwd: string;
  prompt: string;
  /** Further arguments, such as `--settings`, `--session-id` or `--resume`. */
  args?: readonly string[];
  deadlineMs?: number;
  signal?: AbortSignal;
}

export interface ClaudeResult {
  /** null when a signal ended it. */
  exitCode: number | null;
  signal: string | null;
  timedOut: boolean;
  stdout: string;
  stderr: string;
}

export interface ClaudeProcess {
  readonly pid: number;
  readonly exited: Promise<ClaudeResult>;
  kill(signal?: NodeJS.Signals): void;
}

/** Makes `dir` a home in which claude starts without onboarding, login or trust dialogs. */
export function claudeHome(
  dir: string,
  { trusted = [], apiKey = "test-key" }: ClaudeHomeOptions = {},
): ClaudeHome {
  mkdirSync(join(dir, "tmp"), { recursive: true });
  const settings = {
    hasCompletedOnboarding: true,
    theme: "dark",
    // claude remembers an approved key by its end only.
    customApiKeyResponses: { approved: [apiKey.slice(-20)], rejected: [] },
    projects: Object.fromEntries(trusted.map((root) => [root, { hasTrustDialogAccepted: true }])),
  };
  writeFileSync(join(dir, ".claude.json"), JSON.stringify(settings));
  return { path: dir, apiKey };
}

/** The whole environment of a claude, inheriting nothing but PATH: client variables of an outer claude change it. */
export function claudeEnvironment({
  home,
  model,
  env = {},
}: ClaudeEnvironmentOptions): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "/usr/local/bin:/usr/bin:/bin",
    TERM: "xterm-256color",
    LANG: "C.UTF-8",
    HOME: home.path,
    // Otherwise every run leaves folders behind in /tmp, and a killed one its socket.
    TMPDIR: join(home.path, "tmp"),
    ANTHROPIC_BASE_URL: model.url,
    ANTHROPIC_API_KEY: home.apiKey,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    ...gitIsolation,
    ...env,
  };
}

/** The prompt goes through stdin: variadic flags such as `--allowedTools` would swallow a positional one. */
export function printModeArgv(args: readonly string[] = []): string[] {
  return [claudeBinary, "-p", ...args];
}

export function startClaude(options: ClaudeOptions): ClaudeProcess {
  // Files instead of pipes: a grandchild that outlives a killed claude would keep a pipe open for ever.
  const folder = mkdtempSync(join(options.home.path, "run-"));
  const stdout = join(folder, "stdout");
  const stderr = join(folder, "stderr");
  const child = Bun.spawn(printModeArgv(options.args), {
    cwd: options.cwd,
    env: claudeEnvironment(options),
    stdin: new Blob([options.prompt]),
    stdout: Bun.file(stdout),
    stderr: Bun.file(stderr),
    ...(options.signal && { signal: options.signal }),
  });
  const deadline = killAtDeadline(child, options.deadlineMs ?? DEFAULT_DEADLINE_MS);
  const exited = child.exited.then((): ClaudeResult => {
    deadline.cancel();
    return {
      exitCode: child.signalCode ? null : child.exitCode,
      signal: child.signalCode ? `${child.signalCode}` : null,
      timedOut: deadline.hasPassed(),
      stdout: readFileSync(stdout, "utf8"),
      stderr: readFileSync(stderr, "utf8"),
    };
  });
  return { pid: child.pid, exited, kill: (signal = "SIGTERM") => child.kill(signal) };
}

export function runClaude(options: ClaudeOptions): Promise<ClaudeResult> {
  return startClaude(options).exited;
}

/**
 * What claude has written down of a session, "" before that. The file lags behind the conversation by up to some
 * 50 ms, so whoever kills claude and wants to resume it must first see here what the resumed one shall know.
 */
export function transcriptOf(home: ClaudeHome, sessionId: string): string {
  const projects = join(home.path, ".claude/projects");
  if (!existsSync(projects)) return "";
  const [file] = new Bun.Glob(`*/${sessionId}.jsonl`).scanSync({ cwd: projects, absolute: true });
  return file === undefined ? "" : readFileSync(file, "utf8");
}

function killAtDeadline(child: Bun.Subprocess<Blob, Bun.BunFile, Bun.BunFile>, deadlineMs: number) {
  let passed = false;
  let force: Timer | undefined;
  const term = setTimeout(() => {
    passed = true;
    child.kill("SIGTERM");
    force = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
  }, deadlineMs);
  return {
    hasPassed: () => passed,
    cancel() {
      clearTimeout(term);
      clearTimeout(force);
    },
  };
}
