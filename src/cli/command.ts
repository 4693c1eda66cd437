import type { Context } from "./context.ts";

/** A command as data: help, suggestions, completions and parsing all derive from this. */
export interface CommandSpec {
  /** `["mail", "send"]` */
  path: readonly [string, ...string[]];
  summary: string;
  arguments?: readonly ArgumentSpec[];
  options?: readonly OptionSpec[];
  examples?: readonly string[];
  /** Works where there is no project yet, or no ledger that could tell who calls. */
  isForAnybody?: boolean;
  load(): Promise<{ run: Run }>;
}

export interface ArgumentSpec {
  name: string;
  meaning: string;
  isOptional?: boolean;
  /** Takes all the words that follow; only the last argument can. */
  isList?: boolean;
  choices?: readonly string[];
  /** A shell completes the names of agents. */
  isAgent?: boolean;
}

export interface OptionSpec {
  /** `--to <names>`; an option without a value is a switch. */
  flags: string;
  meaning: string;
  isRequired?: boolean;
  choices?: readonly string[];
  /** May be given several times. */
  isList?: boolean;
}

/** What was typed, checked for shape but not yet for meaning. */
export interface Typed {
  args: readonly string[];
  text(name: string): string | undefined;
  list(name: string): string[];
  has(name: string): boolean;
}

export type Run = (context: Context, typed: Typed) => Promise<void>;
