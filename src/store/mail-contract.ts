import type { Injection, Message } from "../domain/mail.ts";
import type { ProcessMark } from "./contract.ts";

export interface Claimant {
  process: ProcessMark;
  /** The Claude session that is shown the mail; null when it is printed by hand. */
  claudeSessionId: string | null;
}

export type NewMessage = Omit<Message, "read">;

export interface MailFilter {
  from?: string;
  to?: string;
  isUnread?: boolean;
  threadId?: string;
  /** Either of the two. */
  party?: string;
  limit: number;
}

export interface ClaimRequest {
  recipient: string;
  claimant: Claimant;
  at: number;
  /** Pressing mail only, with what its senders wrote before it, so that the order within a sender is kept. */
  pressingOnly: boolean;
  maxLength: number;
}

/** How much is unread in an inbox, as far as a hook must know before it decides to write anything. */
export interface InboxGlance {
  hasUnread: boolean;
  hasPressing: boolean;
  claims: Claimant[];
}

export interface MailStore {
  /** All or none; a message whose id is known is not sent again. */
  send(messages: readonly NewMessage[]): Promise<void>;
  /** Reads only. */
  glance(recipient: string): Promise<InboxGlance>;
  /** Claims exactly the messages that fit, in order, so that no other claimant prints them. */
  claim(request: ClaimRequest): Promise<Injection>;
  /** The printing process hands what it printed to the session that shows it. */
  handOver(ids: readonly string[], from: ProcessMark, to: Claimant): Promise<void>;
  /** Marks read what this claimant was shown, as far as it has arrived; returns the ids. */
  acknowledge(
    recipient: string,
    claimant: Claimant,
    at: number,
    hasArrived?: (id: string) => boolean,
  ): Promise<string[]>;
  markRead(ids: readonly string[], at: number): Promise<void>;
  /** Unread again: everything a process claimed that is gone, or a Claude session that ended. */
  release(recipient: string, claimant: Partial<Claimant>): Promise<string[]>;
  findMessage(id: string): Promise<Message | null>;
  /** The newest that match, oldest first. */
  listMessages(filter: MailFilter): Promise<Message[]>;
  unreadCounts(): Promise<Map<string, number>>;
  restore(messages: readonly (NewMessage & { readAt: number | null })[]): Promise<number>;
  check(): Promise<string[]>;
  close(): void;
}
