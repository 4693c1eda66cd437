import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync, type Stats } from "node:fs";
import { join } from "node:path";
import { Context } from "../../src/cli/context.ts";
import { Output } from "../../src/cli/output.ts";
import type { Project } from "../../src/flows/project.ts";
import { type Registration, registerWorker } from "../../src/flows/register.ts";
import { gitIsolation, type TempRepo, type TempRepoOptions, tempRepo } from "./temp.ts";

/** The program as npm installs it: what a user types, not what a module exports. */
export const OVERSEER = join(import.meta.dir, "../../bin/overseer");

/** What must never reach a terminal from a text that somebody else wrote. */
export const UNPRINTABLE = /[^\P{Cc}\t\n]|\u202e/u;

export interface CallOptions {
  stdin?: string;
  /** Added to the clean environment. */
  env?: Record<string, string>;
  /** Another copy of the program than this checkout's. */
  program?: string;
}

export interface Answer {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** The data of a successful `--json` envelope; anything else throws with what was said instead. */
  data<T>(): T;
  /** The error of a failed `--json` envelope. */
  error(): { code: string; message: string; hint?: string };
}

/** Nothing of the tester's own: no token, no Claude Code session, no git configuration, and a home that cannot exist. */
export function cleanEnvironment(extra: Record<string, string> = {}): Record<string, string> {
  return { PATH: process.env.PATH ?? "/usr/bin:/bin", HOME: "/dev/null", ...gitIsolation, ...extra };
}

export async function overseer(
  cwd: string,
  args: readonly string[],
  { stdin, env, program = OVERSEER }: CallOptions = {},
): Promise<Answer> {
  const child = Bun.spawn([program, ...args], {
    cwd,
    env: cleanEnvironment(env),
    stdin: stdin === undefined ? "ignore" : new TextEncoder().encode(stdin),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return answer(exitCode, stdout, stderr);
}

function answer(exitCode: number, stdout: string, stderr: string): Answer {
  const said = `exit ${exitCode}\n${stdout}\n${stderr}`;
  return {
    exitCode,
    stdout,
    stderr,
    data<T>() {
      const envelope = parsed(stdout, said);
      if (exitCode !== 0 || envelope.ok !== true) throw new Error(`not a success: ${said}`);
      return envelope.data as T;
    },
    error() {
      const envelope = parsed(stdout, said);
      if (exitCode === 0 || envelope.ok !== false) throw new Error(`not a failure: ${said}`);
      return envelope.error as ReturnType<Answer["error"]>;
    },
  };
}

function parsed(stdout: string, said: string): Record<string, unknown> {
  try {
    return JSON.parse(stdout);
  } catch (cause) {
    throw new Error(`not one JSON object: ${said}`, { cause });
  }
}

/** A repository in which `overseer init` was run. */
export interface TempProject extends TempRepo {
  overseer(args: readonly string[], options?: CallOptions): Promise<Answer>;
  /** A worker's row and its token, as a spawn would make them. */
  register(registration: Partial<Registration>): Promise<string>;
  open<T>(work: (project: Project) => Promise<T>): Promise<T>;
}

export async function tempProject(options: TempRepoOptions = {}): Promise<TempProject> {
  const repo = tempRepo(options);
  const project: TempProject = {
    ...repo,
    overseer: (args, call) => overseer(repo.path, args, call),
    open: (work) => withProject(repo.path, work),
    register: (registration) =>
      withProject(repo.path, async (opened) => {
        const worker = { name: "ada", capability: "builder", ...registration };
        return (await registerWorker(opened, worker)).token;
      }),
  };
  const init = await project.overseer(["init"]);
  if (init.exitCode === 0) return project;
  repo.remove();
  throw new Error(`overseer init failed: ${init.stderr}`);
}

export async function withProject<T>(root: string, work: (project: Project) => Promise<T>): Promise<T> {
  const streams = {
    stdout() {},
    stderr() {},
    flushed: async () => {},
    isTerminal: false,
    isErrorTerminal: false,
  };
  const context = new Context(await Output.open(streams, "test", false, false), cleanEnvironment(), root);
  try {
    return await work(context.project);
  } finally {
    context.close();
  }
}

export interface SnapshotOptions {
  /** Also the time of the last change: for what must not even be written again. */
  hasTimes?: boolean;
  /** Paths, relative to the folder, that may change. */
  except?: (path: string) => boolean;
}

/** Every path below a folder with its content; two snapshots that are equal are two trees that are equal. */
export function snapshot(folder: string, { hasTimes = false, except }: SnapshotOptions = {}) {
  const seen: Record<string, string> = {};
  const paths = existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: "utf8" }).sort() : [];
  for (const path of paths.filter((found) => !except?.(found))) {
    const file = join(folder, path);
    const stats = lstatSync(file);
    const mode = (stats.mode & 0o777).toString(8);
    // A folder's time is left out: SQLite's own files come and go in it.
    const time = hasTimes && !stats.isDirectory() ? ` ${stats.mtimeMs}` : "";
    seen[path] = `${mode}${time} ${contentOf(file, stats)}`;
  }
  return seen;
}

function contentOf(file: string, stats: Stats): string {
  if (stats.isSymbolicLink()) return `-> ${readlinkSync(file)}`;
  if (!stats.isFile()) return "folder";
  const bytes = readFileSync(file);
  // Short texts as they are, so that a difference can be read.
  return bytes.length < 2_000 && !bytes.includes(0) ? bytes.toString("latin1") : Bun.hash(bytes).toString(16);
}

/** SQLite's own files beside a database come and go with whoever reads it. */
export function isBesideDatabase(path: string): boolean {
  return /\.db-(wal|shm)$/.test(path);
}

/** What a command prints on a real terminal, both streams together unless `words` redirect one. */
export async function onTerminal(cwd: string, words: string, env: Record<string, string> = {}) {
  let seen = "";
  const decoder = new TextDecoder();
  const child = Bun.spawn(["sh", "-c", `"$0" ${words}`, OVERSEER], {
    cwd,
    env: cleanEnvironment({ TERM: "xterm-256color", ...env }),
    terminal: {
      cols: 200,
      rows: 50,
      data(_, bytes) {
        seen += decoder.decode(bytes, { stream: true });
      },
    },
  });
  await child.exited;
  return seen;
}

/** SIGKILL at a moment that no condition names: the next one is another. */
export async function killAfter(child: Bun.Subprocess, ms: number): Promise<void> {
  await Bun.sleep(ms);
  child.kill("SIGKILL");
  await child.exited;
}
