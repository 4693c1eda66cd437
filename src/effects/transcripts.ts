import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { exists, filesBelow, kindOf } from "./files.ts";

/** More than any line has; whatever is longer is passed over. */
const WINDOW_BYTES = 32 * 1024 * 1024;
const NEWLINE = 0x0a;
const OPENING = 0x7b;
const CLOSING = 0x7d;
/** What every line has that says how much was used. Inside of a text its quotes would be escaped. */
const MARK = Buffer.from('"usage"');

export interface ReadTranscript {
  /** The lines that may tell of usage. */
  lines: string[];
  /** Lines that are no JSON object, or too long for one. */
  damaged: number;
  /** Up to here all lines are whole; a last one without an end is read, and read again next time. */
  offset: number;
  /** Whether the last line stops in its middle. */
  isCutOff: boolean;
  /** Whether it was read to its end. */
  isWhole: boolean;
}

/** What a transcript has beyond `from`, about `most` bytes of it. A text says why it cannot be read. */
export function readTranscript(file: string, from: number, most: number): ReadTranscript | string {
  try {
    const kind = kindOf(file);
    if (kind !== "file")
      return kind === "missing" ? MISSING : `it is ${kind === "folder" ? "a folder" : "no file"}`;
    const fd = openSync(file, "r");
    try {
      const { size } = fstatSync(fd);
      // Somebody has put another one in its place.
      return readLines(fd, from > size ? 0 : from, size, most);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Why a transcript cannot be read that was never written, or that Claude Code has deleted. */
export const MISSING = "there is no such file";

function readLines(fd: number, from: number, size: number, most: number): ReadTranscript {
  const found: ReadTranscript = { lines: [], damaged: 0, offset: from, isCutOff: false, isWhole: true };
  let isInsideGiant = false;
  while (found.offset < size) {
    if (found.offset - from >= most) return { ...found, isWhole: false };
    const window = readAt(fd, found.offset, Math.min(WINDOW_BYTES, size - found.offset));
    if (window.length === 0) break; // it has become shorter meanwhile
    const end = window.lastIndexOf(NEWLINE) + 1;
    const isLast = found.offset + window.length >= size;
    if (end === 0 && !isLast) {
      isInsideGiant = true;
      found.offset += window.length;
      continue;
    }
    let start = 0;
    if (isInsideGiant && end > 0) {
      start = window.indexOf(NEWLINE) + 1;
      found.damaged += 1;
      isInsideGiant = false;
    }
    takeLines(window.subarray(start, end), found);
    found.offset += end;
    if (isLast) {
      if (!isInsideGiant) takeUnfinished(window.subarray(end), found);
      break;
    }
  }
  return found;
}

function readAt(fd: number, position: number, length: number): Buffer {
  const window = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    const read = readSync(fd, window, filled, length - filled, position + filled);
    if (read === 0) break;
    filled += read;
  }
  return window.subarray(0, filled);
}

function takeLines(bytes: Buffer, found: ReadTranscript): void {
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, start);
    if (end > start) {
      const line = bytes.subarray(start, end);
      if (bytes[start] !== OPENING || bytes[end - 1] !== CLOSING) found.damaged += 1;
      else if (line.includes(MARK)) found.lines.push(line.toString("utf8"));
    }
    start = end + 1;
  }
}

/** Its writer may be in the middle of it, or was killed there. */
function takeUnfinished(line: Buffer, found: ReadTranscript): void {
  if (line.length === 0) return;
  const text = line.toString("utf8");
  try {
    JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    found.isCutOff = true;
    return;
  }
  if (line.includes(MARK)) found.lines.push(text);
}

/** Claude Code keeps what its subagents say beside the transcript of the session that they work for. */
export function subagentTranscripts(transcript: string): string[] {
  const folder = `${transcript.replace(/\.jsonl$/, "")}/subagents`;
  if (!exists(folder) || kindOf(folder) !== "folder") return [];
  return filesBelow(folder)
    .filter((file) => file.endsWith(".jsonl"))
    .map((file) => `${folder}/${file}`);
}
