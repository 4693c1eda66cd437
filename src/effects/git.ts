import { OverseerError } from "../domain/errors.ts";
import { type RunResult, run } from "./run.ts";

const TIMEOUT_MS = 60_000;
const LOCK_TRIES = 20;
const LOCK_WAIT_MS = 50;
/** They would make git look at another repository than the one it is called in. */
const FOREIGN = [
  "GIT_DIR",
  "GIT_WORK_TREE",
  "GIT_INDEX_FILE",
  "GIT_COMMON_DIR",
  "GIT_OBJECT_DIRECTORY",
  "GIT_ALTERNATE_OBJECT_DIRECTORIES",
  "GIT_NAMESPACE",
  "GIT_PREFIX",
];

/** The one environment in which overseer runs git. */
export function gitEnvironment(
  inherited: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const kept = Object.entries(inherited).filter(([name]) => !FOREIGN.includes(name));
  const env = Object.fromEntries(kept.filter((pair): pair is [string, string] => pair[1] !== undefined));
  return {
    ...env,
    // git status takes index.lock to refresh stats; fifteen workers would collide.
    GIT_OPTIONAL_LOCKS: "0",
    GIT_TERMINAL_PROMPT: "0",
    LC_ALL: "C",
  };
}

export interface Git {
  /** The result whatever the exit code; waits for another git's lock. `extra` is added to the environment. */
  run(
    cwd: string,
    args: readonly string[],
    extra?: Readonly<Record<string, string>>,
    onStart?: (pid: number) => Promise<void>,
  ): Promise<RunResult>;
  /** The output without its last line feed; a failure is an error with git's own words. */
  ask(
    cwd: string,
    args: readonly string[],
    extra?: Readonly<Record<string, string>>,
    onStart?: (pid: number) => Promise<void>,
  ): Promise<string>;
}

/** `bin` is asked for only when git is: the configuration that names it takes a while to read. */
export function gitAt(
  bin: () => Promise<string>,
  inherited: Readonly<Record<string, string | undefined>>,
): Git {
  const env = gitEnvironment(inherited);
  const git: Git = {
    async run(cwd, args, extra = {}, onStart) {
      const program = await bin();
      for (let tries = 1; ; tries++) {
        const result = await run([program, ...args], {
          cwd,
          env: { ...env, ...extra },
          timeoutMs: TIMEOUT_MS,
          ...(onStart ? { onStart } : {}),
        });
        if (result.exitCode === 0 || tries === LOCK_TRIES || !isLocked(result.stderr)) return result;
        await Bun.sleep(LOCK_WAIT_MS);
      }
    },

    async ask(cwd, args, extra, onStart) {
      const { exitCode, stdout, stderr } = await git.run(cwd, args, extra, onStart);
      if (exitCode === 0) return stdout.replace(/\n$/, "");
      const words = (stderr || stdout).trim().slice(0, 1_000);
      throw new OverseerError("command_failed", `git ${args[0]} failed in ${cwd}: ${words}`);
    },
  };
  return git;
}

/** The settings whose name matches, from every file that git reads in this folder. */
export async function readConfig(git: Git, cwd: string, pattern: string): Promise<[string, string][]> {
  const { exitCode, stdout } = await git.run(cwd, ["config", "-z", "--get-regexp", pattern]);
  if (exitCode !== 0) return [];
  const entries = stdout.split("\0").filter((entry) => entry !== "");
  return entries.map((entry) => {
    const [name = "", ...value] = entry.split("\n");
    return [name, value.join("\n")];
  });
}

/** Also of a worktree that another git is just making, whose record is not whole yet. */
function isLocked(stderr: string): boolean {
  return /\.lock': File exists|cannot lock ref|Unable to create '.*\.lock'|failed to read .*\/worktrees\//.test(
    stderr,
  );
}
