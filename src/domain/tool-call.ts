import type { HookPayload } from "./hook-payload.ts";
import { cleanText, cleanValue } from "./redact.ts";

const INPUT_BOUNDS = { maxText: 2_000, maxItems: 20, maxDepth: 3 };
/** Many texts within their bounds may be too much together; then only the outline is kept. */
const INPUT_LENGTH = 32_000;
const OUTLINE_BOUNDS = { maxText: 500, maxItems: 12, maxDepth: 1 };
const RESULT_LENGTH = 500;
const ERROR_LENGTH = 2_000;

/** What is kept of a tool call: enough to see what it did, never a secret, never more than a screenful. */
export interface ToolCall {
  tool: string;
  input: unknown;
  durationMs: number | null;
  result: string | null;
  error: string | null;
  files: string[];
  git: string[];
  mail: string[];
}

export function describeToolCall(payload: HookPayload, isRedacting: boolean): ToolCall {
  const input = cleanInput(payload.toolInput, isRedacting);
  const command = textAt(input, "command") ?? "";
  return {
    tool: cleanText(payload.toolName, 100, isRedacting),
    input,
    durationMs: payload.durationMs,
    result: payload.toolResponse === null ? null : summarise(payload.toolResponse, isRedacting),
    error: payload.error === null ? null : cleanText(payload.error, ERROR_LENGTH, isRedacting),
    files: touchedFiles(payload, isRedacting),
    git: wordsAfter(command, "git"),
    mail: wordsAfter(command, "mail"),
  };
}

function cleanInput(input: unknown, isRedacting: boolean): unknown {
  const clean = cleanValue(input, INPUT_BOUNDS, isRedacting);
  const isTooMuch = JSON.stringify(clean).length > INPUT_LENGTH;
  return isTooMuch ? cleanValue(input, OUTLINE_BOUNDS, isRedacting) : clean;
}

const TELLING_KEYS = ["command", "file_path", "notebook_path", "pattern", "url", "description", "prompt"];

/** The part of a call that tells a person what it was about. */
export function headline(call: ToolCall): string {
  for (const key of TELLING_KEYS) {
    const about = textAt(call.input, key);
    if (about) return `${call.tool} ${about.replaceAll("\n", " ").slice(0, 160)}`;
  }
  return call.tool;
}

function summarise(response: unknown, isRedacting: boolean): string {
  const text =
    typeof response === "string"
      ? response
      : (textAt(response, "stdout") ?? JSON.stringify(cleanValue(response, INPUT_BOUNDS, isRedacting)));
  return cleanText(text, RESULT_LENGTH, isRedacting);
}

function touchedFiles(payload: HookPayload, isRedacting: boolean): string[] {
  const writes = ["Write", "Edit", "MultiEdit", "NotebookEdit"].includes(payload.toolName);
  const file = textAt(payload.toolInput, "file_path") ?? textAt(payload.toolInput, "notebook_path");
  return writes && file ? [cleanText(file, 500, isRedacting)] : [];
}

/** The first word after each `program` that is no option and no setting: `commit` for `git -C . -c a.b=c commit`. */
function wordsAfter(command: string, program: string): string[] {
  if (!command.includes(`${program} `)) return [];
  const found: string[] = [];
  let isNext = false;
  for (const word of command.slice(0, INPUT_BOUNDS.maxText).replaceAll("\n", " ").split(" ")) {
    if (word === program) isNext = true;
    else if (isNext && word >= "a" && word < "{" && !word.includes("=")) {
      isNext = false;
      if (!found.includes(word)) found.push(word.slice(0, 40));
    }
  }
  return found.slice(0, 10);
}

/** A first look, for whoever then asks the tracker: a command that may have closed this issue of beads. */
export function mayHaveClosed(payload: HookPayload, taskId: string): boolean {
  if (payload.toolName !== "Bash") return false;
  const command = textAt(payload.toolInput, "command");
  if (command === null || !(command.includes("bd close") || command.includes("bd done"))) return false;
  return command.includes(taskId);
}

function textAt(value: unknown, key: string): string | null {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return null;
  const found: unknown = Reflect.get(value, key);
  return typeof found === "string" && found !== "" ? found : null;
}
