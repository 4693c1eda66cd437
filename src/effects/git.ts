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
  /** The result whatever the exit code; waits for another git's lock. */
  run(cwd: string, args: readonly string[]): Promise<RunResult>;
}

export function gitAt(bin: string, inherited: Readonly<Record<string, string | undefined>>): Git {
  const env = gitEnvironment(inherited);
  return {
    async run(cwd, args) {
      for (let tries = 1; ; tries++) {
        const result = await run([bin, ...args], { cwd, env, timeoutMs: TIMEOUT_MS });
        if (result.exitCode === 0 || tries === LOCK_TRIES || !isLocked(result.stderr)) return result;
        await Bun.sleep(LOCK_WAIT_MS);
      }
    },
  };
}

function isLocked(stderr: string): boolean {
  return /\.lock': File exists|cannot lock ref|Unable to create '.*\.lock'/.test(stderr);
}
