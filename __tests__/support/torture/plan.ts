/** What the torture runs agree on: who there is, who writes what to whom, and what the agents report on stdout. */
export const SENDERS = 32;
export const RECEIVERS = 32;
export const MAILS = 50;
export const EVENTS = 50;

interface Place {
  root: string;
  name: string;
  /** Nobody begins before this file is there, so that all meet databases that do not exist yet. */
  go: string;
}

export interface SenderJob extends Place {
  role: "sender";
  recipients: string[];
  /** The command gives random ids; with the store, a sender that is started again sends the same ids again. */
  way: "store" | "command";
  /** Where an earlier life of this sender got to. */
  nextMail: number;
  nextEvent: number;
}

export interface ReceiverJob extends Place {
  role: "receiver";
  inbox: string;
  /** When this file is there, nobody sends any more. */
  done: string;
}

export type Job = SenderJob | ReceiverJob;

export interface Printed {
  id: string;
  from: string;
  to: string;
  subject: string;
  body: string;
}

/** One line of an agent's stdout. */
export type Report =
  | { kind: "ready"; mark: string }
  | { kind: "sent"; n: number }
  | { kind: "recorded"; n: number }
  | { kind: "mail"; messages: Printed[] }
  /** With the longest time in ms that each kind of work took. */
  | { kind: "finished"; slowest: Record<string, number> };

export const nameOf = (kind: string, index: number): string => `${kind}-${String(index).padStart(2, "0")}`;
export const tokenOf = (name: string): string => `token-of-${name}`;
export const subjectOf = (n: number): string => `mail ${n}`;
export const idOf = (from: string, n: number): string => `msg-${from}-${n}`;
/** Some 28 of these fit into one check: more than a pipe takes in one piece, less than it can hold. */
export const bodyOf = (from: string, n: number): string => `${from} says ${n}. `.repeat(40);
/** Each recipient hears often enough from a sender that a wrong order would show. */
export const recipientOf = (recipients: readonly string[], n: number): string =>
  recipients[n % recipients.length] ?? "nobody";
/** A few of the events go through the command that stands in a worker's settings file. */
export const isThroughHook = (n: number): boolean => n % 12 === 5;
