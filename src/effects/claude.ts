import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { OverseerError } from "../domain/errors.ts";
import { writePrivately } from "./files.ts";
import { hookProgram } from "./package.ts";

export interface ClaudeStart {
  /** Absolute. */
  bin: string;
  name: string;
  /** A conversation to go on with, or a new one under this id. */
  session: { kind: "new" | "resumed"; id: string };
  settings: string;
  systemPrompt: string;
  permissionMode: string;
  model: string | null;
  prompt: string;
}

/** Resuming remembers neither settings nor mode nor system prompt: all of it is given again. */
export function claudeArgv(start: ClaudeStart): [string, ...string[]] {
  return [
    start.bin,
    ...(start.session.kind === "new" ? ["--session-id"] : ["--resume"]),
    start.session.id,
    "--name",
    start.name,
    "--settings",
    start.settings,
    "--append-system-prompt-file",
    start.systemPrompt,
    "--permission-mode",
    start.permissionMode,
    ...(start.model === null ? [] : ["--model", start.model]),
    start.prompt,
  ];
}

export interface Launch {
  argv: readonly [string, ...string[]];
  env: Readonly<Record<string, string>>;
  cwd: string;
}

/** What tmux runs instead of the program itself: it reads the file, removes it, and becomes that program. */
export function prepareLaunch(file: string, launch: Launch): [string, ...string[]] {
  // For this user's eyes alone: the environment has the token in it, and whatever keys the user has.
  writePrivately(file, JSON.stringify(launch));
  const { bun, config, entries } = hookProgram();
  return [bun, "--no-env-file", `--config=${config}`, `${entries}/launch.js`, file];
}

const HEAD_BYTES = 1024 * 1024;

/** Claude Code can resume what it has begun to write down; before the first answer there is nothing to resume. */
export function hasConversation(transcript: string | null): boolean {
  if (transcript === null || !existsSync(transcript)) return false;
  const fd = openSync(transcript, "r");
  try {
    const head = Buffer.alloc(HEAD_BYTES);
    const length = readSync(fd, head, 0, HEAD_BYTES, 0);
    return head.subarray(0, length).includes('"type":"assistant"');
  } finally {
    closeSync(fd);
  }
}

/** The absolute path of a program that the configuration names. */
export function findProgram(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
  root: string,
  hint: string,
): string {
  const found = Bun.which(name, { PATH: env.PATH ?? "", cwd: root });
  if (found !== null) return found;
  throw new OverseerError("program_missing", `${name} is not installed`, { hint });
}
