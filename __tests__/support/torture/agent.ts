import { existsSync, writeSync } from "node:fs";
import type { Streams } from "../../../src/cli/output.ts";
import { main } from "../../../src/cli/program.ts";
import { OverseerError } from "../../../src/domain/errors.ts";
import { pathsOf, sessionLogFolder } from "../../../src/effects/paths.ts";
import { processMark } from "../../../src/effects/processes.ts";
import { hashToken } from "../../../src/effects/tokens.ts";
import { openLedger } from "../../../src/store/sqlite/ledger.ts";
import { until } from "../until.ts";
import { type Job, type Report, tokenOf } from "./plan.ts";

export const PATIENCE_MS = 60_000;

/** Written before this returns, so that what was reported was done, however the process ends. */
export function report(line: Report): void {
  writeSync(1, `${JSON.stringify(line)}\n`);
}

/** Reads the job from the command line, says who this process is, and waits for the start of the run. */
export async function begin<J extends Job>(role: J["role"]): Promise<J> {
  const job = JSON.parse(process.argv[2] ?? "null") as J;
  if (job.role !== role) throw new Error(`a ${role} was given the job of a ${job.role}`);
  report({ kind: "ready", mark: (await processMark(process.pid)) ?? `${process.pid}:unknown` });
  await until("the run starts", () => existsSync(job.go), { timeoutMs: PATIENCE_MS, everyMs: 5 });
  return job;
}

/** The session of this name, made unless an earlier life or a partner at the same inbox has made it. */
export async function ensureSession(root: string, name: string): Promise<void> {
  const ledger = openLedger(pathsOf(root).ledger, { mayUpgrade: true });
  const tokenHash = hashToken(tokenOf(name));
  try {
    if (await ledger.findSession({ tokenHash })) return;
    const startedAt = Date.now();
    await ledger.registerSession({
      id: `ses-${name}`,
      name,
      capability: "builder",
      tokenHash,
      startedAt,
      logFolder: sessionLogFolder(name, startedAt),
    });
  } catch (error) {
    if (!(error instanceof OverseerError && error.code === "name_taken")) throw error;
  } finally {
    ledger.close();
  }
}

/**
 * One command of a worker, from its words to its exit code, in this process: starting another one for each would take
 * longer than all the rest. `print` is given what the command says to stdout.
 */
export async function command(
  root: string,
  name: string,
  words: readonly string[],
  print: (text: string) => void,
): Promise<void> {
  let said = "";
  const streams: Streams = {
    stdout(text) {
      said += text;
      print(text);
    },
    stderr(text) {
      said += text;
    },
    flushed: () => new Promise((resolve) => process.stdout.write("", () => resolve())),
    isTerminal: false,
    isErrorTerminal: false,
  };
  const env = { ...process.env, OVERSEER_ROOT: root, OVERSEER_TOKEN: tokenOf(name) };
  const exitCode = await main([...words, "--json"], { env, cwd: root, streams });
  if (exitCode !== 0) throw new Error(`overseer ${words.join(" ")} ended with ${exitCode}: ${said}`);
}

/** Keeps the longest time that each kind of work took: nearly all of it is waiting for the write lock. */
export class Stopwatch {
  readonly slowest: Record<string, number> = {};

  async time<T>(what: string, work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    const result = await work();
    this.slowest[what] = Math.max(this.slowest[what] ?? 0, Math.round(performance.now() - startedAt));
    return result;
  }
}
