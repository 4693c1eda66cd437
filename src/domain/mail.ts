import { OverseerError } from "./errors.ts";
import type { Priority } from "./task.ts";

export const MESSAGE_TYPES = [
  "status",
  "question",
  "result",
  "error",
  "dispatch",
  "nudge",
  "steer",
  "sync",
  "escalation",
] as const;
export type MessageType = (typeof MESSAGE_TYPES)[number];
/** What a person or an agent may send; the other types are overseer's own. */
export const SENDABLE_TYPES: readonly MessageType[] = ["status", "question", "result", "error"];

export const MAX_BODY_BYTES = 64 * 1024;
export const MAX_SUBJECT_LENGTH = 200;
/** Claude Code shows the model only a preview of a longer hook output; the margin is for the JSON around it. */
export const MAX_INJECTION_LENGTH = 8_000;

/** What is pasted into the pane of an idle worker; the mail itself comes with the prompt that this becomes. */
export const WAKE_NOTICE = "overseer: mail has come for you.";

export interface Message {
  id: string;
  from: string;
  to: string;
  subject: string;
  body: string;
  type: MessageType;
  priority: Priority;
  threadId: string;
  createdAt: number;
  read: boolean;
}

/** Mail that does not wait for the next prompt but is shown after the next tool use. */
export function isPressing(message: Pick<Message, "type" | "priority">): boolean {
  return message.type === "steer" || message.priority === "high" || message.priority === "urgent";
}

export function assertSendable(subject: string, body: string): void {
  if (subject.trim() === "") {
    throw new OverseerError("subject_empty", "the subject is empty", {
      hint: 'give one with --subject "..."',
    });
  }
  if (/[\r\n]/.test(subject)) {
    throw new OverseerError("usage", "the subject has several lines", { hint: "put the rest into --body" });
  }
  if (subject.length > MAX_SUBJECT_LENGTH) {
    throw new OverseerError(
      "usage",
      `the subject has ${subject.length} characters, at most ${MAX_SUBJECT_LENGTH} are allowed`,
      {
        hint: "put the text into --body",
      },
    );
  }
  const bytes = new TextEncoder().encode(body).length;
  if (bytes > MAX_BODY_BYTES) {
    throw new OverseerError(
      "body_too_long",
      `the body has ${bytes} bytes, at most ${MAX_BODY_BYTES} are allowed`,
      {
        hint: "commit the text to a file and send its path",
      },
    );
  }
}

export interface Injection {
  text: string;
  /** The messages that stand in the text, in order. */
  included: Message[];
  /** How many unread messages did not fit. */
  left: number;
}

/**
 * What one injection shows: the oldest messages that fit, each whole. A message that would not fit even alone is shown
 * by its head, with the command that prints it. `waiting` counts the unread messages beyond the candidates.
 */
export function planInjection(candidates: readonly Message[], waiting: number, maxLength: number): Injection {
  const parts: string[] = [];
  const included: Message[] = [];
  let room = maxLength - footer(candidates.length + waiting).length;
  for (const message of candidates) {
    const whole = renderMessage(message);
    const isAlone = included.length === 0;
    const part = isAlone && whole.length + 1 > room ? renderHead(message) : whole;
    if (part.length + 1 > room) break;
    room -= part.length + 1;
    parts.push(part);
    included.push(message);
  }
  const left = candidates.length - included.length + waiting;
  if (left > 0) parts.push(footer(left));
  return { text: parts.join("\n"), included, left };
}

function footer(left: number): string {
  return `${left} more unread ${left === 1 ? "message waits" : "messages wait"}: read them with: overseer mail check`;
}

function renderMessage(message: Message): string {
  return `${openTag(message)}\n${neutralise(message.body)}\n</overseer-mail>`;
}

function renderHead(message: Message): string {
  const text = `This message has ${message.body.length} characters. Read it with: overseer mail read ${message.id}`;
  return `${openTag(message)}\n${text}\n</overseer-mail>`;
}

function openTag(message: Message): string {
  const attributes = [
    ["from", message.from],
    ["id", message.id],
    ["type", message.type],
    ["priority", message.priority],
    ["subject", message.subject],
  ].map(([name, value]) => `${name}="${attribute(value ?? "")}"`);
  return `<overseer-mail ${attributes.join(" ")}>`;
}

function attribute(text: string): string {
  return neutralise(text)
    .replaceAll("&", "&amp;")
    .replaceAll('"', "&quot;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replace(/\s+/g, " ");
}

/** A body is data: it cannot close its own tag, open one that speaks with another's voice, or move the cursor. */
export function neutralise(text: string): string {
  if (!text.includes("<")) return printable(text);
  const voice =
    /<(?=\s*(?:\/\s*)?(?:overseer-|system|sync-message|user|assistant|human|function|antml|tool|invoke|command-))/gi;
  return printable(text).replace(voice, "&lt;");
}

/** Without control characters but for tab and newline, and without marks that are invisible or turn the direction. */
export function printable(text: string): string {
  if (/^[\t\n -~]*$/.test(text)) return text; // most is, and the pattern below takes long to make
  const unprintable =
    /[^\P{Cc}\t\n]|[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;
  return text.toWellFormed().replaceAll("\r\n", "\n").replace(unprintable, "\ufffd");
}
