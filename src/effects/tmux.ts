import { OverseerError } from "../domain/errors.ts";
import { exists, remove } from "./files.ts";
import { packageFile } from "./package.ts";
import { type RunResult, run, runOnTerminal } from "./run.ts";

const TIMEOUT_MS = 15_000;
const WIDTH = 200;
const HEIGHT = 50;
/** Claude Code takes an Enter that comes together with a paste for a part of it. */
const TAKEN_IN_MS = 150;
/** The server keeps the environment of whoever starts it; everything else is each pane's own. */
const SERVER_ENVIRONMENT = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TERM"];

export interface Pane {
  session: string;
  id: string;
  pid: number;
  /** Its process has ended; what it last showed can still be read. */
  isDead: boolean;
  /** The argv it was started with, as tmux prints it. */
  command: string;
}

export interface Tmux {
  readonly socket: string;
  /** A new session with one pane, in which `argv` runs without a shell in between; null when the name is taken. */
  open(
    session: string,
    argv: readonly [string, ...string[]],
  ): Promise<{ paneId: string; pid: number } | null>;
  /** None where no server runs. */
  panes(): Promise<Pane[]>;
  /** What a pane shows, and so many lines before that. */
  text(paneId: string, linesBefore: number): Promise<string>;
  /** Types a line into a pane and sends it. Not with send-keys, which splits at newlines and swallows semicolons. */
  paste(paneId: string, line: string): Promise<void>;
  /** Whether somebody looks at it in a terminal. */
  isWatched(paneId: string): Promise<boolean>;
  close(paneId: string): Promise<void>;
  /** Hands the terminal over until the person leaves the session. */
  attach(session: string): Promise<number>;
  /** For a person to type, whatever TMUX_TMPDIR their shell has. */
  attachCommand(session: string): string[];
  /** Nothing is left of the server. */
  end(): Promise<void>;
}

/** One server per repository. */
export function tmuxSocket(root: string): string {
  return `overseer-${Bun.CryptoHasher.hash("sha256", root, "hex").slice(0, 12)}`;
}

/** tmux on a socket of our own, so that neither the user's server nor their configuration is ever touched. */
export function tmuxAt(
  bin: string,
  socket: string,
  inherited: Readonly<Record<string, string | undefined>>,
): Tmux {
  const env = { ...clean(inherited), SHELL: "/bin/sh" };
  const base: [string, ...string[]] = [bin, "-u", "-L", socket, "-f", packageFile("templates", "tmux.conf")];
  // Not in the user's folder: tmux keeps the working directory of whoever starts its server busy.
  const call = (args: readonly string[], input?: string) =>
    run([...base, ...args], {
      env,
      cwd: "/",
      timeoutMs: TIMEOUT_MS,
      ...(input === undefined ? {} : { input }),
    });
  // TMUX_TMPDIR never reaches our tmux, so this is where its sockets are.
  const socketFile = `/tmp/tmux-${process.getuid?.() ?? 0}/${socket}`;
  return {
    socket,

    async open(session, argv) {
      const size = ["-x", String(WIDTH), "-y", String(HEIGHT)];
      const format = ["-P", "-F", "#{pane_id} #{pane_pid}"];
      const result = await call(["new-session", "-d", "-s", session, ...size, ...format, "--", ...argv]);
      if (/duplicate session/.test(result.stderr)) return null;
      if (result.exitCode !== 0) throw failed(result);
      const [paneId = "", pid = ""] = result.stdout.trim().split(" ");
      return { paneId, pid: Number(pid) };
    },

    async panes() {
      const fields = ["session_name", "pane_id", "pane_pid", "pane_dead", "pane_start_command"];
      const format = fields.map((field) => `#{${field}}`).join("\t");
      const result = await call(["list-panes", "-a", "-F", format]);
      if (result.exitCode !== 0 && !hasNoServer(result)) throw failed(result);
      return result.exitCode === 0 ? result.stdout.trimEnd().split("\n").flatMap(toPane) : [];
    },

    async text(paneId, linesBefore) {
      const result = await call(["capture-pane", "-p", "-J", "-t", paneId, "-S", `-${linesBefore}`]);
      if (result.exitCode !== 0) throw failed(result);
      return result.stdout.replace(/\s+$/, "");
    },

    async paste(paneId, line) {
      const buffer = `overseer-${process.pid}`;
      const steps: [args: string[], input?: string][] = [
        [["load-buffer", "-b", buffer, "-"], line],
        [["paste-buffer", "-p", "-d", "-r", "-b", buffer, "-t", paneId]],
      ];
      for (const [args, input] of steps) {
        const result = await call(args, input);
        if (result.exitCode !== 0) throw failed(result);
      }
      await Bun.sleep(TAKEN_IN_MS);
      const sent = await call(["send-keys", "-t", paneId, "Enter"]);
      if (sent.exitCode !== 0) throw failed(sent);
    },

    async isWatched(paneId) {
      const result = await call(["display-message", "-p", "-t", paneId, "#{session_attached}"]);
      return result.stdout.trim() !== "0";
    },

    async close(paneId) {
      const result = await call(["kill-pane", "-t", paneId]);
      const isGone = hasNoServer(result) || /can't find pane/.test(result.stderr);
      if (result.exitCode !== 0 && !isGone) throw failed(result);
    },

    attach: (session) =>
      runOnTerminal([...base, "attach-session", "-t", `=${session}`], { ...env, ...terminal(inherited) }),

    attachCommand: (session) => [bin, "-S", socketFile, "attach-session", "-t", `=${session}`],

    async end() {
      if (!exists(socketFile)) return;
      await call(["kill-server"]);
      remove(socketFile);
    },
  };
}

function clean(inherited: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const kept = SERVER_ENVIRONMENT.map((name) => [name, inherited[name]] as const);
  return Object.fromEntries(kept.filter((pair): pair is [string, string] => pair[1] !== undefined));
}

function terminal({ TERM = "xterm-256color", COLORTERM }: Readonly<Record<string, string | undefined>>) {
  return { TERM, ...(COLORTERM === undefined ? {} : { COLORTERM }) };
}

function toPane(line: string): Pane[] {
  const [session = "", id = "", pid = "", dead = "", ...command] = line.split("\t");
  return id === ""
    ? []
    : [{ session, id, pid: Number(pid), isDead: dead === "1", command: command.join("\t") }];
}

function hasNoServer({ stderr }: RunResult): boolean {
  return /no server running|error connecting|server exited|lost server|no current target|no sessions/.test(
    stderr,
  );
}

function failed({ stderr, stdout }: RunResult): OverseerError {
  return new OverseerError("command_failed", `tmux: ${(stderr || stdout).trim().slice(0, 500)}`, {
    hint: "overseer doctor",
  });
}
