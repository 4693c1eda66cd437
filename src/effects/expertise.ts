import { messageOf } from "../domain/errors.ts";
import { run } from "./run.ts";

export interface PrimeRequest {
  /** With a `.mulch` in it. */
  cwd: string;
  env: Readonly<Record<string, string>>;
  args: readonly string[];
}

export type Primed =
  | { kind: "text"; text: string }
  | { kind: "not installed" }
  | { kind: "failed"; why: string };

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 256 * 1024;
const SHOWN_WORDS = 300;

/** What `mulch` prints. Nobody's work depends on it, so whatever is wrong with it is an answer and no error. */
export async function askMulch({ cwd, env, args }: PrimeRequest): Promise<Primed> {
  const mulch = Bun.which("mulch", { PATH: env.PATH ?? "", cwd });
  if (mulch === null) return { kind: "not installed" };
  try {
    const result = await run([mulch, ...args], { cwd, env, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES });
    if (result.exitCode === 0) return { kind: "text", text: result.stdout };
    const words = (result.stderr.trim() || result.stdout.trim()).slice(0, SHOWN_WORDS);
    return { kind: "failed", why: `mulch prime ended with ${result.exitCode}: ${words}` };
  } catch (error) {
    return { kind: "failed", why: messageOf(error) };
  }
}
