import { meansUnknown, readFailure } from "../domain/beads.ts";
import { OverseerError } from "../domain/errors.ts";
import { findProgram } from "./claude.ts";
import { run } from "./run.ts";

export interface Bd {
  /** What `bd` answers, as JSON; null when it knows no such issue. Anything else it says is an error with its words. */
  ask(args: readonly [string, ...string[]], input?: string): Promise<unknown>;
}

/** A first call may have to start its database. */
const TIMEOUT_MS = 30_000;
const SHOWN_WORDS = 500;

export const BD_HINT = "npm install -g @beads/bd, or set tracker: builtin in .overseer/config.yaml";

/** The `bd` of PATH, at work for the repository at `root`. */
export function bdAt(root: string, env: Readonly<Record<string, string>>, timeoutMs = TIMEOUT_MS): Bd {
  return {
    async ask(args, input) {
      const bin = findProgram("bd", env, root, BD_HINT);
      const [verb] = args;
      const result = await run([bin, ...args, "--json"], {
        cwd: root,
        env,
        timeoutMs,
        ...(input === undefined ? {} : { input }),
      });
      if (result.isCut) throw refused(verb, "it printed more than overseer reads");
      const answer = parsed(result.stdout) ?? parsed(result.stderr);
      const failure = readFailure(answer);
      if (result.exitCode === 0 && failure === null && answer !== undefined) return answer;
      const words = failure ?? (result.stderr.trim() || result.stdout.trim());
      if (result.exitCode !== 0 && meansUnknown(words)) return null;
      if (result.exitCode !== 0 || failure !== null) throw refused(verb, words || `exit ${result.exitCode}`);
      throw refused(verb, `it did not answer in JSON: ${words || "nothing at all"}`);
    },
  };
}

/** Undefined for what is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export function refused(verb: string, words: string): OverseerError {
  return new OverseerError("command_failed", `bd ${verb}: ${words.slice(0, SHOWN_WORDS)}`, {
    hint: `see what bd ${verb} says in this repository; overseer doctor`,
  });
}
