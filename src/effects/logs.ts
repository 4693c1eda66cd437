import type { NewEvent } from "../domain/event.ts";
import { redact } from "../domain/redact.ts";
import type { Paths } from "./paths.ts";
import { appendWhole } from "./raw-files.ts";

export function appendLine(file: string, line: string): void {
  appendWhole(file, `${line.replaceAll("\n", "\\n")}\n`);
}

export function appendEvent(file: string, event: NewEvent): void {
  appendLine(file, JSON.stringify({ ...event, at: new Date(event.at).toISOString() }));
}

/** What overseer itself failed at, for `doctor` and for whoever wonders. */
export function logError(paths: Paths, at: number, doing: string, error: unknown): void {
  const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
  appendLine(paths.errors, `${new Date(at).toISOString()} ${redact(`${doing}: ${why}`)}`);
}
