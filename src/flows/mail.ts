import { OverseerError } from "../domain/errors.ts";
import {
  assertSendable,
  type Injection,
  MAX_SUBJECT_LENGTH,
  type Message,
  type MessageType,
} from "../domain/mail.ts";
import { quote, STANDING_ADDRESSES } from "../domain/names.ts";
import { nearestFew } from "../domain/nearest.ts";
import { isLive } from "../domain/session.ts";
import type { Priority } from "../domain/task.ts";
import { newMessageId } from "../effects/ids.ts";
import { isAlive, processMark } from "../effects/processes.ts";
import type { Session } from "../store/contract.ts";
import type { MailFilter, NewMessage } from "../store/mail-contract.ts";
import { type Caller, cleaner, type Project, tell } from "./project.ts";
import { type Reach, wakeRecipients } from "./wake.ts";

export interface Draft {
  from: string;
  to: readonly string[];
  subject: string;
  body: string;
  type: MessageType;
  priority: Priority;
  threadId: string | null;
}

/** A message on its way, and what became of it at once. */
export interface Sent {
  message: Message;
  /** Null when that could not be found out. */
  reach: Reach | null;
}

/** One message per recipient, all in one transaction. */
export async function sendMail(project: Project, draft: Draft): Promise<Sent[]> {
  assertSendable(draft.subject, draft.body);
  const sessions = await project.ledger.currentSessions();
  const recipients = resolveAddresses(sessions, draft.to, draft.from);
  for (const session of sessions) if (recipients.includes(session.name)) await assertReader(project, session);
  const clean = await cleaner(project);
  const at = project.clock.now();
  const messages = recipients.map((to): NewMessage => {
    const id = newMessageId();
    const { from, type, priority, threadId } = draft;
    const subject = clean(draft.subject);
    const body = clean(draft.body);
    return { id, from, to, subject, body, type, priority, threadId: threadId ?? id, createdAt: at };
  });
  await project.mail.send(messages);
  await tellSent(project, messages);
  const reached = await wakeRecipients(project, recipients);
  return messages.map((message) => ({
    message: { ...message, read: false },
    reach: reached.get(message.to) ?? null,
  }));
}

/** A message that belongs to an action: its id is derived from the action's, so that sending it twice is one message. */
export async function sendOurs(
  project: Project,
  message: Omit<NewMessage, "createdAt" | "threadId">,
): Promise<void> {
  if (await project.mail.findMessage(message.id)) return;
  const clean = await cleaner(project);
  const sent: NewMessage = {
    ...message,
    subject: clean(message.subject).slice(0, MAX_SUBJECT_LENGTH),
    body: clean(message.body),
    threadId: message.id,
    createdAt: project.clock.now(),
  };
  await project.mail.send([sent]);
  await tellSent(project, [sent]);
  await wakeRecipients(project, [sent.to]);
}

/** The ledger gets who wrote to whom about what; the journal also the text, so that a damaged mail.db can be restored. */
async function tellSent(project: Project, messages: readonly NewMessage[]): Promise<void> {
  const event = (message: NewMessage, data: Record<string, unknown>) => ({
    at: message.createdAt,
    type: "mail.sent" as const,
    agent: message.from,
    data,
  });
  const events = messages.map((message) => {
    const { id, to, subject, type, priority } = message;
    return event(message, { id, to, subject, type, priority });
  });
  await tell(
    project,
    events,
    messages.map((message) => event(message, { message })),
  );
}

/** Refuses a name that nobody has: mail from it could not be answered, mail for it would never come. */
export async function assertAddress(project: Project, name: string): Promise<void> {
  const names = (await project.ledger.currentSessions()).map((session) => session.name);
  if (![...STANDING_ADDRESSES, ...names].includes(name)) {
    throw unknownAddress(name, [...STANDING_ADDRESSES, ...names]);
  }
}

/** Names, `@all` for every live worker and `@builder` for every live builder, without the sender. */
function resolveAddresses(
  sessions: readonly Session[],
  addresses: readonly string[],
  sender: string,
): string[] {
  const names = sessions.map((session) => session.name);
  const workers = sessions.filter(
    (session) => isLive(session.state) && !STANDING_ADDRESSES.includes(session.name),
  );
  const found = addresses.flatMap((address) => {
    if (address.startsWith("@")) return membersOf(workers, address, sender);
    if (STANDING_ADDRESSES.includes(address) || names.includes(address)) return [address];
    throw unknownAddress(address, [...STANDING_ADDRESSES, ...names]);
  });
  return [...new Set(found)];
}

/** Nobody will ever read it there, but for the next worker of that name, which has another task. */
async function assertReader({ ledger }: Project, { id, name, state }: Session): Promise<void> {
  if (state !== "completed") return;
  const entries = await ledger.mergeEntries({ sessionId: id });
  if (entries.some(({ status }) => status === "held")) return;
  throw new OverseerError("ended_otherwise", `${name} has completed its task and reads no mail any more`, {
    hint: `overseer diff ${name}; what is still to be done is another task: overseer sling`,
  });
}

function membersOf(workers: readonly Session[], group: string, sender: string): string[] {
  const members = workers.filter((worker) => group === "@all" || `@${worker.capability}` === group);
  const names = members.map((worker) => worker.name).filter((name) => name !== sender);
  if (names.length > 0) return names;
  throw new OverseerError("address_unknown", `no live worker is ${quote(group)} at the moment`, {
    hint: "overseer status",
  });
}

function unknownAddress(address: string, known: readonly string[]): OverseerError {
  const near = nearestFew(address, known, 3);
  return new OverseerError("address_unknown", `nobody is called ${quote(address)}`, {
    hint: near.length > 0 ? `did you mean ${near.join(" or ")}?` : "overseer status",
  });
}

export interface CheckRequest {
  recipient: string;
  maxLength: number;
  /** Shows the mail; only what has been shown when it resolves is marked read. */
  show(injection: Injection): Promise<void>;
}

/** By hand: claim, show, mark read. Killed before the end, the next check finds the claim's process gone and shows it. */
export async function checkMail(project: Project, request: CheckRequest): Promise<Message[]> {
  const { mail, clock } = project;
  const { recipient } = request;
  await takeBack(project, recipient);
  const self = (await processMark(process.pid)) ?? `${process.pid}:self`;
  const injection = await mail.claim({
    recipient,
    claimant: { process: self, claudeSessionId: null },
    at: clock.now(),
    pressingOnly: false,
    maxLength: request.maxLength,
  });
  const ids = injection.included.map((message) => message.id);
  await request.show(injection);
  if (ids.length === 0) return [];
  await mail.markRead(ids, clock.now());
  await tellRead(project, recipient, ids);
  return injection.included;
}

const LOOK_AGAIN_MS = 200;

/** Returns when there is unread mail, also what a dead process had claimed; `nothing_yet` after the time-out. */
export async function waitForMail(
  reopen: () => Project,
  recipient: string,
  timeoutMs: number,
): Promise<void> {
  const first = reopen();
  const deadline = first.clock.now() + timeoutMs;
  for (let project = first; ; project = reopen()) {
    await takeBack(project, recipient);
    if ((await project.mail.glance(recipient)).hasUnread) return;
    const left = deadline - project.clock.now();
    if (left <= 0) {
      throw new OverseerError("nothing_yet", `no mail for ${recipient} yet`, {
        hint: "wait again, or go on working",
      });
    }
    await Bun.sleep(Math.min(left, LOOK_AGAIN_MS));
  }
}

/** Releases what was claimed for a recipient by processes that are gone. */
export async function takeBack(project: Project, recipient: string): Promise<string[]> {
  const { claims } = await project.mail.glance(recipient);
  const released: string[] = [];
  for (const claim of claims) {
    if (!(await isAlive(claim.process))) released.push(...(await project.mail.release(recipient, claim)));
  }
  const at = project.clock.now();
  if (released.length > 0) {
    await tell(project, [{ at, type: "mail.released", agent: recipient, data: { ids: released } }]);
  }
  return released;
}

async function tellRead(project: Project, recipient: string, ids: readonly string[]): Promise<void> {
  await tell(project, [{ at: project.clock.now(), type: "mail.read", agent: recipient, data: { ids } }]);
}

/** The newest that match, oldest first; looking marks nothing. A worker sees what it sent and what it got. */
export function listMail(project: Project, caller: Caller, filter: MailFilter): Promise<Message[]> {
  return project.mail.listMessages(caller.kind === "worker" ? { ...filter, party: caller.name } : filter);
}

/**
 * One message whole. Its recipient has read it once it was shown; a person or the orchestrator may look at anybody's.
 */
export async function readMail(
  project: Project,
  caller: Caller,
  id: string,
  show: (message: Message) => Promise<void>,
): Promise<void> {
  const message = await findMail(project, caller, id);
  await show(message);
  await markOwnRead(project, caller, message);
}

async function markOwnRead(project: Project, caller: Caller, message: Message): Promise<void> {
  if (message.to !== caller.name || message.read) return;
  await project.mail.markRead([message.id], project.clock.now());
  await tellRead(project, caller.name, [message.id]);
}

export async function replyToMail(
  project: Project,
  caller: Caller,
  id: string,
  answer: { body: string; type: MessageType; priority: Priority | undefined },
): Promise<Sent> {
  const message = await findMail(project, caller, id);
  const [sent] = await sendMail(project, {
    from: caller.name,
    to: [message.from === caller.name ? message.to : message.from],
    subject: /^re: /i.test(message.subject) ? message.subject : `Re: ${message.subject}`.slice(0, 200),
    body: answer.body,
    type: answer.type,
    priority: answer.priority ?? message.priority,
    threadId: message.threadId,
  });
  if (!sent) throw new Error("the answer was not sent");
  await markOwnRead(project, caller, message);
  return sent;
}

async function findMail(project: Project, caller: Caller, id: string): Promise<Message> {
  const message = await project.mail.findMessage(id);
  if (!message) {
    throw new OverseerError("message_unknown", `there is no message ${quote(id)}`, {
      hint: "overseer mail list",
    });
  }
  const isTheirs = message.to === caller.name || message.from === caller.name;
  if (caller.kind === "worker" && !isTheirs) {
    throw new OverseerError("not_you", `${id} is between ${message.from} and ${message.to}`, {
      hint: `overseer mail list --to ${caller.name}`,
    });
  }
  return message;
}
