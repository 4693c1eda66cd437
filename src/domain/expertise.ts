import { printable } from "./mail.ts";

/** As `mulch.primeFormat` names it; mulch has a switch of its own for JSON. */
export function primeArguments(domains: readonly string[], format: "markdown" | "xml" | "json"): string[] {
  const shape = format === "json" ? ["--json"] : ["--format", format];
  // Without --all mulch leaves out what has to do with no file that was just changed.
  return ["prime", "--all", ...shape, ...(domains.length === 0 ? [] : ["--", ...domains])];
}

/** What mulch itself gives by default has some 16,000 characters. */
const MAX_LENGTH = 24_000;

/** What a worker is told of it: bounded, and without anything that a terminal would obey. */
export function expertiseText(printed: string): string {
  const text = printable(printed).trim();
  if (text.length <= MAX_LENGTH) return text;
  const kept = text.slice(0, text.lastIndexOf("\n", MAX_LENGTH) + 1 || MAX_LENGTH).trimEnd();
  return `${kept.toWellFormed()}\n\n(There is more: mulch prime)`;
}
