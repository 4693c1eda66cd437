import { askFor, type Denial, type GuardFacts, type Place, readOnly } from "./guard-facts.ts";
import { judgeShell } from "./guard-shell.ts";
import { territoryOf, trespass } from "./guard-territory.ts";
import { isInScope } from "./scope.ts";

const WRITERS = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

export function isWriter(tool: string): boolean {
  return WRITERS.includes(tool);
}

/** What a call is about: the file or the command line. */
function targetOf(tool: string, input: unknown): string | null {
  if (typeof input !== "object" || input === null) return null;
  const found: unknown = isWriter(tool)
    ? (Reflect.get(input, "file_path") ?? Reflect.get(input, "notebook_path"))
    : Reflect.get(input, "command");
  return typeof found === "string" && found !== "" ? found : null;
}

/** Null when the call may go on. */
export function judge(tool: string, input: unknown, facts: GuardFacts, place: Place): Denial | null {
  const target = targetOf(tool, input);
  if (isWriter(tool)) return judgeWrite(target, facts, place);
  return tool === "Bash" && target !== null ? judgeShell(target, facts, place) : null;
}

function judgeWrite(file: string | null, facts: GuardFacts, place: Place): Denial | null {
  if (file === null)
    return { rule: "blind", reason: "The call names no file. Give the path of one in your worktree." };
  if (facts.isReadOnly) return readOnly(`You are a ${facts.capability}: you change no files.`, facts);
  const given = absolute(file, place);
  // The one way or the other: whether `link/..` is where the link stands or above what it leads to, programs differ.
  const plain = withoutDots(given);
  return judgeFile(given, facts, place) ?? (plain === given ? null : judgeFile(plain, facts, place));
}

function judgeFile(file: string, facts: GuardFacts, place: Place): Denial | null {
  const path = place.resolve(file);
  if (path === null)
    return {
      rule: "blind",
      reason: `${file} leads in a circle of links. Give the path of a file in your worktree.`,
    };
  const territory = territoryOf(path, facts, place);
  if (territory !== "own") return trespass(path, territory, facts);
  const relative = path.slice(facts.worktree.length + 1);
  if (facts.fileScope.length === 0 || isInScope(relative, facts.fileScope)) return null;
  return {
    rule: "scope",
    reason: `${relative} is not among your files (${facts.fileScope.join(", ")}): somebody else may be working on it. ${askFor("it", facts)}`,
  };
}

function withoutDots(path: string): string {
  if (!path.includes("/..")) return path;
  const kept: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") kept.pop();
    else if (part !== "" && part !== ".") kept.push(part);
  }
  return `/${kept.join("/")}`;
}

function absolute(file: string, { cwd, variables }: Place): string {
  if (file.startsWith("/")) return file;
  if (file === "~" || file.startsWith("~/")) return `${variables.HOME ?? cwd}${file.slice(1)}`;
  return `${cwd}/${file}`;
}

/** What of a branch's changed files must not land as it is: those outside of the scope, or all where none may be. */
export function outsideScope(
  files: readonly string[],
  { fileScope, isReadOnly }: { fileScope: readonly string[]; isReadOnly: boolean },
): string[] {
  if (isReadOnly) return [...files];
  return fileScope.length === 0 ? [] : files.filter((file) => !isInScope(file, fileScope));
}
