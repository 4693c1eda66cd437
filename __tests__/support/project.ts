import { Database } from "bun:sqlite";
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Context } from "../../src/cli/context.ts";
import { Output } from "../../src/cli/output.ts";
import type { HookEvent } from "../../src/domain/hook-event.ts";
import { type HookRole, hookCommand, hookGroups } from "../../src/domain/hook-settings.ts";
import type { Message } from "../../src/domain/mail.ts";
import { hookProgram } from "../../src/effects/package.ts";
import { type Paths, pathsOf } from "../../src/effects/paths.ts";
import { type Draft, sendMail } from "../../src/flows/mail.ts";
import type { Project } from "../../src/flows/project.ts";
import { type Registration, registerWorker } from "../../src/flows/register.ts";
import type { Session } from "../../src/store/contract.ts";
import { gitIsolation, type TempRepo, type TempRepoOptions, tempFolder, tempRepo } from "./temp.ts";
import { until } from "./until.ts";

export const overseerBin = join(import.meta.dir, "../../bin/overseer");

/** A hook that hangs is ended, so that the test says so instead of hanging too. */
const DEADLINE_MS = 40_000;

export interface Ran {
  /** null when a signal ended it. */
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  env?: Record<string, string>;
  input?: string | Uint8Array;
  cwd?: string;
}

export interface Worker {
  readonly name: string;
  readonly session: Session;
  readonly token: string;
  /** What a worker's pane has beside the caller's environment. */
  readonly env: Record<string, string>;
}

export type Letter = Partial<Draft> & { to: string[] };

/** What became of a message, as `mail.db` tells. */
export interface MailRow {
  id: string;
  state: "unread" | "claimed" | "read";
  claimedBy: string | null;
  claimSession: string | null;
}

/** A repository in which `overseer init` was run as a user runs it, and a project opened on it. */
export interface TestProject extends AsyncDisposable {
  readonly repo: TempRepo;
  readonly root: string;
  readonly paths: Paths;
  readonly project: Project;
  /** A folder outside the repository, for settings, homes and the like; removed with it. */
  readonly scratch: string;
  overseer(args: readonly string[], options?: RunOptions): Promise<Ran>;
  worker(name: string, registration?: Partial<Registration>): Promise<Worker>;
  send(letter: Letter): Promise<Message[]>;
  /** A Claude Code session of a worker, or of the orchestrator for null, whose hooks the test fires. */
  claude(worker: Worker | null, options?: { sessionId?: string }): StandIn;
  /** The settings file with which a worker's claude is started. */
  workerSettings(worker: Worker, allow?: readonly string[]): string;
  mailRows(): MailRow[];
  /** The lines of a file below `.overseer/logs`; none when there is no such file. */
  log(file: string): string[];
  session(name: string): Promise<Session>;
  /** Closes the databases, as between two commands; the next use opens them again. */
  close(): void;
}

export async function testProject(options: TempRepoOptions = {}): Promise<TestProject> {
  const repo = tempRepo(options);
  const outside = tempFolder("overseer-outside-");
  const home = join(outside.path, "home");
  mkdirSync(home);
  const paths = pathsOf(repo.path);
  const children: Bun.Subprocess[] = [];
  const overseer: TestProject["overseer"] = (args, given = {}) =>
    run([overseerBin, ...args], { ...given, cwd: given.cwd ?? repo.path, env: { HOME: home, ...given.env } });
  const init = await overseer(["init"]);
  if (init.exitCode !== 0) throw new Error(`overseer init failed: ${init.stderr}`);
  const context = await openContext(repo.path, home);

  return {
    repo,
    root: repo.path,
    paths,
    scratch: outside.path,
    get project() {
      return context.project;
    },
    overseer,
    async worker(name, registration = {}) {
      const registered = await registerWorker(context.project, {
        capability: "builder",
        ...registration,
        name,
      });
      const env = {
        OVERSEER_AGENT_NAME: name,
        OVERSEER_TOKEN: registered.token,
        OVERSEER_ROOT: repo.path,
      };
      return { name, ...registered, env };
    },
    async send(letter) {
      const defaults = {
        from: "human",
        subject: "news",
        body: "",
        type: "status",
        priority: "normal",
      } as const;
      const sent = await sendMail(context.project, { ...defaults, threadId: null, ...letter });
      return sent.map(({ message }) => message);
    },
    claude(worker, { sessionId = crypto.randomUUID() } = {}) {
      return standIn({ root: repo.path, home, worker, sessionId, children });
    },
    workerSettings(worker, allow = ["Bash", "Read", "Agent", "Task"]) {
      const hooks = hookGroups("worker", hookProgram(), repo.path);
      const settings = { hooks, permissions: { defaultMode: "dontAsk", allow } };
      return outside.write(`${worker.session.id}.json`, JSON.stringify(settings));
    },
    mailRows: () => mailRows(paths.mail),
    log: (file) => linesOf(join(paths.logs, file)),
    async session(name) {
      const session = await context.project.ledger.currentSession(name);
      if (!session) throw new Error(`there is no session of ${name}`);
      return session;
    },
    close: () => context.close(),
    async [Symbol.asyncDispose]() {
      context.close();
      for (const child of children) child.kill("SIGKILL");
      await Promise.all(children.map((child) => child.exited));
      repo.remove();
      outside.remove();
    },
  };
}

export interface FireOptions {
  env?: Record<string, string>;
  cwd?: string;
  /** Runs the hook by its deployed command, but with this around it. */
  around?: (command: string) => string;
  role?: HookRole;
  /** Claude Code has not written down yet what it was shown, as in the first moments after. */
  isForgetful?: boolean;
  /** The person has interrupted it before the model said anything. */
  isUnanswered?: boolean;
}

/** A live process in the place of claude, and the hook events that claude would fire. */
export interface StandIn {
  readonly sessionId: string;
  readonly pid: number;
  /** The payload has what Claude Code always gives and, over it, `extra`. */
  fire(event: HookEvent, extra?: Record<string, unknown>, options?: FireOptions): Promise<Ran>;
  /** Any bytes as payload, to any event. */
  fireRaw(event: string, payload: string | Uint8Array, options?: FireOptions): Promise<Ran>;
  /** The same without waiting, and with its output unread. */
  start(
    event: HookEvent,
    stdout: number | "pipe",
    extra?: Record<string, unknown>,
  ): Bun.Subprocess<Blob, number | "pipe", "pipe">;
  die(): Promise<void>;
}

interface StandInOptions {
  root: string;
  home: string;
  worker: Worker | null;
  sessionId: string;
  children: Bun.Subprocess[];
}

function standIn({ root, home, worker, sessionId, children }: StandInOptions): StandIn {
  // It ends with its standard input, so not even a killed test leaves it behind.
  const process = Bun.spawn(["cat"], { stdin: "pipe", stdout: "ignore", stderr: "ignore" });
  children.push(process);
  const identity = { HOME: home, CLAUDE_PID: String(process.pid), ...worker?.env };
  const ownRole: HookRole = worker ? "worker" : "orchestrator";
  const argv = (event: string, { role = ownRole, around = same }: FireOptions = {}): string[] => {
    // An event that overseer does not know would be run by the same command.
    return ["/bin/sh", "-c", around(hookCommand(role, hookProgram(), event as HookEvent, root))];
  };
  const transcript = `${home}/${sessionId}.jsonl`;
  const payloadOf = (event: HookEvent, extra: Record<string, unknown>): string =>
    JSON.stringify({
      session_id: sessionId,
      transcript_path: transcript,
      cwd: root,
      hook_event_name: event,
      ...extra,
    });
  const fireRaw: StandIn["fireRaw"] = (event, input, options = {}) =>
    run(argv(event, options), { input, cwd: options.cwd ?? root, env: { ...identity, ...options.env } });
  return {
    sessionId,
    pid: process.pid,
    fireRaw,
    async fire(event, extra = {}, options = {}) {
      const ran = await fireRaw(event, payloadOf(event, extra), options);
      const shown = { type: "attachment", attachment: { hookEvent: event, content: ran.stdout } };
      const written = [
        ...(options.isForgetful === true ? [] : [shown]),
        ...(options.isUnanswered === true ? [] : [{ type: "assistant" }]),
      ];
      for (const entry of written) appendFileSync(transcript, `${JSON.stringify(entry)}\n`);
      return ran;
    },
    start(event, stdout, extra = {}) {
      const child = Bun.spawn(argv(event), {
        cwd: root,
        env: cleanEnvironment(identity),
        stdin: new Blob([payloadOf(event, extra)]),
        stdout,
        stderr: "pipe",
      });
      children.push(child);
      return child;
    },
    async die() {
      process.kill("SIGKILL");
      await process.exited;
    },
  };
}

function same(command: string): string {
  return command;
}

/** Nothing but PATH is inherited: a test run by an agent would otherwise pass that agent's identity on. */
export function cleanEnvironment(env: Record<string, string>): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "/usr/local/bin:/usr/bin:/bin",
    LANG: "C.UTF-8",
    ...gitIsolation,
    ...env,
  };
}

export async function run(argv: readonly string[], options: RunOptions): Promise<Ran> {
  const child = Bun.spawn([...argv], {
    cwd: options.cwd ?? "/",
    env: cleanEnvironment(options.env ?? {}),
    stdin: new Blob([options.input ?? ""]),
    stdout: "pipe",
    stderr: "pipe",
    timeout: DEADLINE_MS,
    killSignal: "SIGKILL",
  });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { exitCode: child.signalCode ? null : child.exitCode, stdout, stderr };
}

async function openContext(root: string, home: string): Promise<Context> {
  const silent = () => {};
  const flushed = async () => {};
  const streams = { stdout: silent, stderr: silent, flushed, isTerminal: false, isErrorTerminal: false };
  const output = await Output.open(streams, "test", false, false);
  return new Context(output, cleanEnvironment({ HOME: home }), root);
}

function mailRows(file: string): MailRow[] {
  using db = new Database(file, { readwrite: true });
  db.run("PRAGMA busy_timeout = 5000");
  return db
    .query<MailRow, []>(
      `SELECT id, claimed_by AS claimedBy, claim_session AS claimSession,
         CASE WHEN read_at IS NOT NULL THEN 'read' WHEN claimed_by IS NOT NULL THEN 'claimed' ELSE 'unread' END AS state
       FROM messages ORDER BY seq`,
    )
    .all();
}

export function linesOf(file: string): string[] {
  if (!existsSync(file)) return [];
  const text = readFileSync(file, "utf8");
  if (text === "") return [];
  if (!text.endsWith("\n")) throw new Error(`the last line of ${file} is not whole: ${text.slice(-200)}`);
  return text.slice(0, -1).split("\n");
}

/** The ids of the messages that a text shows, in order. */
export function mailIdsIn(text: string): string[] {
  return [...text.matchAll(/<overseer-mail from=\\?"[^"]*" id=\\?"(msg-[a-z0-9]+)\\?"/g)].map(
    ([, id]) => id ?? "",
  );
}

/** Waits until some mail is claimed by claude itself: the hook that printed it has handed it over. */
export async function untilHandedOver(at: TestProject, claudePid: number): Promise<void> {
  const isHeld = () => at.mailRows().some((row) => row.state === "claimed" && isClaimOf(row, claudePid));
  await until("the mail is handed over to claude", isHeld, { everyMs: 2 });
}

function isClaimOf(row: MailRow, pid: number): boolean {
  return row.claimedBy?.startsWith(`${pid}:`) === true;
}
