import { readShell, type ShellCommand, type Variables, type Word } from "./shell.ts";

/** A command as it is run in the end, without what only starts it. */
export interface PlainCommand {
  kind: "command";
  name: string;
  args: Word[];
  settings: Word[];
  writes: Word[];
}

export type PlainStep = PlainCommand | { kind: "enter" } | { kind: "leave" };

/** Programs that run another one, with those of their options that take a value. */
const WRAPPERS = new Map([
  ["env", "-u --unset -C --chdir -S --split-string"],
  ["command", ""],
  ["builtin", ""],
  ["exec", "-a"],
  ["nohup", ""],
  ["time", "-f -o"],
  ["timeout", "-k --kill-after -s --signal"],
  ["nice", "-n --adjustment"],
  ["ionice", "-c -n -p"],
  ["sudo", "-u -g -h -p -C -r -t -D -R -T --user --group"],
  ["doas", "-u -C"],
  ["stdbuf", "-i -o -e"],
  ["setsid", ""],
  ["caffeinate", "-t -w"],
  ["npx", "-p --package -w --workspace"],
  ["bunx", "-p --package"],
  ["xargs", "-I -i -n -P -L -d -E -s -a --max-args --max-procs --delimiter --arg-file --replace"],
]);
const SHELLS = new Set(["bash", "sh", "zsh", "dash", "ksh"]);
const MAX_DEPTH = 8;

/** Every command of a command line, also behind `env`, `sudo`, `xargs` and the like, `bash -c`, and `eval`. */
export function commandsIn(text: string, variables: Variables, depth = 0): PlainStep[] {
  const found: PlainStep[] = [];
  for (const step of readShell(text, variables)) {
    if (step.kind !== "command") found.push(step);
    else unwrap(step, variables, depth, found);
  }
  return found;
}

function unwrap(command: ShellCommand, variables: Variables, depth: number, found: PlainStep[]): void {
  let words = command.words;
  const settings = [...command.settings];
  for (;;) {
    const name = programOf(words[0]);
    const valued = WRAPPERS.get(name);
    if (valued === undefined) break;
    const rest = afterOptions(words, valued.split(" "));
    // `command -v git` only asks.
    if (name === "command" && words.length - rest.length > 1) return;
    if (name === "timeout") rest.shift();
    while (name !== "command" && rest[0] && /^[A-Za-z_]\w*=/.test(rest[0].text))
      settings.push(...rest.splice(0, 1));
    words = rest;
  }
  const name = programOf(words[0]);
  const args = words.slice(1);
  found.push({ kind: "command", name, args, settings, writes: command.writes });
  const script = SHELLS.has(name)
    ? scriptOf(args, command.input)
    : name === "eval"
      ? args.map(({ text }) => text).join(" ")
      : null;
  if (script === null || depth >= MAX_DEPTH) return;
  const inner = commandsIn(script, variables, depth + 1);
  found.push(...(name === "eval" ? inner : surrounded(inner)));
}

/** The words that are no options, nor the values of options that take one. */
export function positional(args: readonly Word[], valued: readonly string[] = []): Word[] {
  const found: Word[] = [];
  for (let at = 0; at < args.length; at++) {
    const word = args[at];
    if (word === undefined) break;
    if (word.text === "--") return [...found, ...args.slice(at + 1)];
    if (valued.includes(word.text)) at++;
    else if (!word.text.startsWith("-") || word.text === "-") found.push(word);
  }
  return found;
}

function surrounded(steps: PlainStep[]): PlainStep[] {
  return [{ kind: "enter" }, ...steps, { kind: "leave" }];
}

/** `/usr/bin/git` is git. */
function programOf(word: Word | undefined): string {
  if (!word?.isKnown) return "";
  return word.text.slice(word.text.lastIndexOf("/") + 1);
}

function afterOptions(words: readonly Word[], valued: readonly string[]): Word[] {
  let at = 1;
  for (; at < words.length; at++) {
    const text = words[at]?.text ?? "";
    if (text === "--") return words.slice(at + 1);
    if (!text.startsWith("-")) break;
    if (valued.includes(text)) at++;
  }
  return words.slice(at);
}

/** What `bash -c` or `bash <<EOF` runs; null when it is a file. A variable in it stays one that is not known. */
function scriptOf(args: readonly Word[], input: string | null): string | null {
  for (let at = 0; at < args.length; at++) {
    const text = args[at]?.text ?? "";
    if (!/^[-+]/.test(text)) return null;
    if (/^-[a-z]*c[a-z]*$/.test(text)) {
      return args[at + 1]?.text ?? null;
    }
    if (text === "-o" || text === "--rcfile" || text === "--init-file") at++;
  }
  return input;
}
