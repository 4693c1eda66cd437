import { OverseerError } from "../domain/errors.ts";

export interface RunOptions {
  cwd?: string;
  env?: Readonly<Record<string, string | undefined>>;
  input?: string;
  timeoutMs: number;
  /** Output beyond this is dropped and `isCut` says so. */
  maxBytes?: number;
  /** Told the pid as soon as there is one, for whoever has to end the child should this process be killed. */
  onStart?: (pid: number) => Promise<void>;
  /** Ends the child when its time is over, in place of a signal to the child alone. */
  end?: () => Promise<void>;
}

export interface RunResult {
  exitCode: number;
  stdout: string;
  stderr: string;
  isCut: boolean;
}

const DEFAULT_MAX_BYTES = 16 * 1024 * 1024;
/** After its time a child is asked to end, and this much later made to. */
const GRACE_MS = 2_000;

/**
 * The one place where overseer starts a process and waits for it: an argv, never a shell. An exit code is a result; a
 * program that is not there, or that did not end in time, is an error.
 */
export async function run(argv: readonly [string, ...string[]], options: RunOptions): Promise<RunResult> {
  const child = start(options.onStart ? [...HELD_BACK, ...argv] : argv, options);
  const maxBytes = options.maxBytes ?? DEFAULT_MAX_BYTES;
  const stdout = readBounded(child.stdout, maxBytes);
  const stderr = readBounded(child.stderr, maxBytes);
  const deadline = endInTime(child, options);
  await options.onStart?.(child.pid);
  if (options.onStart) await letGo(child.stdin);
  const exitCode = await child.exited;
  deadline.clear();
  // A grandchild that outlives its parent may hold the pipes open for as long as it likes.
  await endedOrGrace(Promise.all([stdout.ended, stderr.ended]));
  // Also when it failed: an open pipe would keep this process alive.
  const [out, err] = [stdout.stop(), stderr.stop()];
  if (deadline.isPast()) {
    throw new OverseerError("command_timeout", `${argv[0]} did not end within ${options.timeoutMs} ms`, {
      hint: "try again, or look at what keeps it",
    });
  }
  return { exitCode, stdout: out.text, stderr: err.text, isCut: out.isCut || err.isCut };
}

/** Begins when it is told to, and not at all should whoever waits for `onStart` be killed before. The pid stays. */
const HELD_BACK = ["/bin/sh", "-c", 'read -r _ || exit 1; exec "$0" "$@" </dev/null'] as const;

async function letGo(stdin: unknown): Promise<void> {
  const pipe = stdin as Bun.FileSink;
  pipe.write("\n");
  await pipe.end();
}

function start(argv: readonly [string, ...string[]], options: RunOptions) {
  try {
    return Bun.spawn([...argv], {
      stdin: options.onStart
        ? "pipe"
        : options.input === undefined
          ? "ignore"
          : new TextEncoder().encode(options.input),
      stdout: "pipe",
      stderr: "pipe",
      env: { ...(options.env ?? process.env) },
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    });
  } catch (error) {
    if (!isMissingProgram(error)) throw error;
    throw new OverseerError("program_missing", `${argv[0]} is not installed`, {
      hint: "overseer doctor",
      cause: error,
    });
  }
}

/** Hands the terminal to a program until it ends. */
export async function runOnTerminal(
  argv: readonly [string, ...string[]],
  env: Readonly<Record<string, string>>,
): Promise<number> {
  const child = Bun.spawn([...argv], { env: { ...env }, stdio: ["inherit", "inherit", "inherit"] });
  return await child.exited;
}

/** Starts a program that goes on when this process ends, and when the terminal goes away. */
export function startDetached(argv: readonly [string, ...string[]], cwd: string): void {
  Bun.spawn([...argv], { cwd, detached: true, stdio: ["ignore", "ignore", "ignore"] }).unref();
}

function isMissingProgram(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "EACCES");
}

/** The timer goes with the race: left running, it would keep every command alive for as long as the grace. */
async function endedOrGrace(ended: Promise<unknown>): Promise<void> {
  const grace = Promise.withResolvers<void>();
  const timer = setTimeout(grace.resolve, GRACE_MS);
  await Promise.race([ended, grace.promise]);
  clearTimeout(timer);
}

function endInTime(child: Bun.Subprocess, { timeoutMs, end: endAll }: RunOptions) {
  let isPast = false;
  let kill: ReturnType<typeof setTimeout> | undefined;
  const end = setTimeout(() => {
    isPast = true;
    if (endAll) void endAll();
    else child.kill("SIGTERM");
    kill = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
  }, timeoutMs);
  return {
    isPast: () => isPast,
    clear() {
      clearTimeout(end);
      clearTimeout(kill);
    },
  };
}

function readBounded(stream: ReadableStream<Uint8Array>, maxBytes: number) {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let text = "";
  let bytes = 0;
  const read = async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      const room = maxBytes - bytes;
      bytes += next.value.length;
      if (room > 0) text += decoder.decode(next.value.subarray(0, room), { stream: true });
    }
  };
  return {
    ended: read(),
    stop() {
      void reader.cancel();
      return { text: text + decoder.decode(), isCut: bytes > maxBytes };
    },
  };
}
