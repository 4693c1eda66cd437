import { Argument, Command, CommanderError, Option } from "commander";
import packageJson from "../../package.json" with { type: "json" };
import { OverseerError } from "../domain/errors.ts";
import { logError } from "../effects/logs.ts";
import { pathsOf } from "../effects/paths.ts";
import { findRoot, isInstalled } from "../effects/root.ts";
import type { CommandSpec, OptionSpec, Typed } from "./command.ts";
import { Context } from "./context.ts";
import { exitCodeOf } from "./exit-code.ts";
import { Output, type Streams } from "./output.ts";
import { COMMANDS, GROUPS } from "./registry.ts";

export interface Surroundings {
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  streams: Streams;
}

/** From the words typed to an exit code. Only the command that was asked for is loaded. */
export async function main(argv: readonly string[], around: Surroundings): Promise<number> {
  const program = new Command("overseer")
    .description("Let many Claude Code agents work on one repository at once.")
    .version(packageJson.version, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand(false)
    .configureHelp({ showGlobalOptions: false })
    .configureOutput({
      writeOut: around.streams.stdout,
      writeErr: () => {}, // said by us, in our own form
    })
    .exitOverride();
  let exitCode = 0;
  for (const spec of COMMANDS) {
    addCommand(program, spec, async (args, options) => {
      exitCode = await runCommand(spec, args, options, around);
    });
  }
  try {
    await program.parseAsync([...argv], { from: "user" });
    return exitCode;
  } catch (error) {
    return await report(error, argv, program, around);
  }
}

type Action = (args: readonly string[], options: Readonly<Record<string, unknown>>) => Promise<void>;

function addCommand(program: Command, spec: CommandSpec, action: Action): void {
  const [first, second] = spec.path;
  const parent = second === undefined ? program : groupOf(program, first);
  const command = parent.command(second ?? first).description(spec.summary);
  for (const { name, meaning, isOptional, isList, choices } of spec.arguments ?? []) {
    const word = isList ? `${name}...` : name;
    const argument = new Argument(isOptional ? `[${word}]` : `<${word}>`, meaning);
    // Claude Code's own names are taken too, so the choices of `log` are only shown.
    command.addArgument(choices && first !== "log" ? argument.choices(choices) : argument);
  }
  for (const option of spec.options ?? []) command.addOption(toOption(option));
  command.option("--json", "print one JSON object");
  if (spec.examples)
    command.addHelpText("after", `\nExamples:\n${spec.examples.map((line) => `  ${line}`).join("\n")}`);
  command.action(() => action(command.args, command.opts()));
}

function groupOf(program: Command, name: string): Command {
  const known = program.commands.find((command) => command.name() === name);
  return (
    known ??
    program
      .command(name)
      .description(GROUPS[name] ?? "")
      .helpCommand(false)
  );
}

function toOption(spec: OptionSpec): Option {
  const option = new Option(spec.flags, spec.isRequired ? `${spec.meaning}; required` : spec.meaning);
  if (spec.choices) option.choices([...spec.choices]);
  if (spec.isRequired) option.makeOptionMandatory();
  if (spec.isList)
    option.argParser((value: string, before: string[] | undefined) => [...(before ?? []), value]);
  return option;
}

async function runCommand(
  spec: CommandSpec,
  args: readonly string[],
  options: Readonly<Record<string, unknown>>,
  around: Surroundings,
): Promise<number> {
  const output = await openOutput(spec.path.join(" "), options.json === true, around);
  const context = new Context(output, around.env, around.cwd);
  try {
    const { run } = await spec.load();
    if (!spec.isForAnybody) await context.caller();
    await run(context, typed(args, options));
    return context.exitCode;
  } finally {
    context.close();
  }
}

function typed(args: readonly string[], options: Readonly<Record<string, unknown>>): Typed {
  return {
    args,
    text(name) {
      const value = options[name];
      return typeof value === "string" ? value : undefined;
    },
    list(name) {
      const value = options[name];
      return Array.isArray(value) ? value.map(String) : [];
    },
    // commander turns --no-wait into a `wait` that is false.
    has: (name) =>
      options[name] === true || (name.startsWith("no") && options[lowerFirst(name.slice(2))] === false),
  };
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

async function openOutput(command: string, isJson: boolean, around: Surroundings): Promise<Output> {
  const hasColour = !around.env.NO_COLOR && around.env.TERM !== "dumb";
  return await Output.open(around.streams, command, isJson, hasColour);
}

async function report(
  error: unknown,
  argv: readonly string[],
  program: Command,
  around: Surroundings,
): Promise<number> {
  if (error instanceof CommanderError && error.exitCode === 0) return 0;
  const words = argv.filter((word) => !word.startsWith("-"));
  const known = COMMANDS.find((spec) => spec.path.every((part, at) => part === words[at]));
  const output = await openOutput(
    known?.path.join(" ") ?? words[0] ?? "overseer",
    argv.includes("--json"),
    around,
  );
  if (error instanceof CommanderError && isOnlyAGroup(error)) {
    around.streams.stdout(helpFor(program, words));
    return exitCodeOf(new OverseerError("usage", ""));
  }
  const told = error instanceof CommanderError ? usageError(error, known?.path ?? groupIn(words)) : error;
  if (!(told instanceof OverseerError)) keepForLater(told, around);
  output.failed(told);
  return exitCodeOf(told);
}

/** `overseer` or `overseer mail` alone: commander asks for help by an error. */
function isOnlyAGroup(error: CommanderError): boolean {
  return error.code === "commander.help";
}

function helpFor(program: Command, words: readonly string[]): string {
  const group = program.commands.find((command) => command.name() === words[0]);
  return (group ?? program).helpInformation();
}

function groupIn([first = ""]: readonly string[]): readonly string[] {
  return Object.hasOwn(GROUPS, first) ? [first] : [];
}

function usageError(error: CommanderError, path: readonly string[]): OverseerError {
  const message = error.message.replace(/^error: /, "").replaceAll("\n", " ");
  return new OverseerError("usage", message, { hint: ["overseer", ...path, "--help"].join(" ") });
}

function keepForLater(error: unknown, around: Surroundings): void {
  const root = around.env.OVERSEER_ROOT ?? findRoot(around.cwd);
  if (root === null || !isInstalled(pathsOf(root))) return;
  try {
    logError(pathsOf(root), Date.now(), "overseer", error);
  } catch (failure) {
    around.streams.stderr(`overseer: the error log cannot be written: ${String(failure)}\n`);
  }
}
