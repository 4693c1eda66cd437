import { parseDuration } from "../domain/duration.ts";
import { OverseerError } from "../domain/errors.ts";
import { type MessageType, SENDABLE_TYPES } from "../domain/mail.ts";
import { quote } from "../domain/names.ts";
import { PRIORITIES, type Priority } from "../domain/task.ts";
import type { Context } from "./context.ts";

/** The values that several commands take, from text to what they mean. */
export function toCount(text: string | undefined, fallback: number, flag: string): number {
  if (text === undefined) return fallback;
  const count = Number(text);
  if (Number.isInteger(count) && count > 0 && count <= 100_000) return count;
  throw new OverseerError("usage", `${flag} takes a whole number from 1 to 100000, not ${quote(text)}`);
}

export function toList(text: string | undefined): string[] {
  return (text ?? "")
    .split(/,(?![^{]*\})/) // not inside of a glob's braces
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** A list that was asked for must name something: an empty variable in a script is a mistake, not "none". */
export function toGivenList(text: string | undefined, flag: string): string[] {
  const list = toList(text);
  if (text !== undefined && list.length === 0) {
    throw new OverseerError("usage", `${flag} names nothing`, {
      hint: `leave ${flag} out, or give it a value`,
    });
  }
  return list;
}

export function toPriority(text: string | undefined): Priority | undefined {
  return PRIORITIES.find((priority) => priority === text);
}

export function toMessageType(text: string | undefined): MessageType {
  return SENDABLE_TYPES.find((type) => type === text) ?? "status";
}

export function toDuration(text: string, flag: string): number {
  const ms = parseDuration(text);
  if (ms !== null) return ms;
  throw new OverseerError("usage", `${flag} takes a duration such as 30s, 15m or 2h, not ${quote(text)}`);
}

/** A level counts from 0. */
export function toLevel(text: string | undefined): number | undefined {
  if (text === undefined || /^\d{1,3}$/.test(text)) return text === undefined ? undefined : Number(text);
  throw new OverseerError("usage", `--depth takes a whole number from 0, not ${quote(text)}`, {
    hint: "leave --depth out",
  });
}

export function assertOneOrAll(name: string | undefined, isAll: boolean, hint: string): void {
  if ((name === undefined) === isAll) return;
  throw new OverseerError("usage", isAll ? "a name and --all contradict each other" : "say whom", { hint });
}

/** `2h` ago, or a date. */
export function toMoment(text: string, now: number): number {
  const ago = parseDuration(text);
  const at = ago === null ? Date.parse(text) : now - ago;
  if (!Number.isNaN(at)) return at;
  throw new OverseerError("since_invalid", `${quote(text)} is neither a duration nor a date`, {
    hint: "--since 2h, or --since 2026-01-31T12:00:00Z",
  });
}

/** `-` stands for standard input. */
export async function toBody(text: string | undefined, context: Context): Promise<string> {
  return text === "-" ? await context.stdin() : (text ?? "");
}
