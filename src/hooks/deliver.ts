import { MAX_INJECTION_LENGTH } from "../domain/mail.ts";
import { isAlive, processMark } from "../effects/processes.ts";
import type { Claimant, MailStore } from "../store/mail-contract.ts";

/** When a hook event shows mail: everything unread, what is pressing, or nothing (it only acknowledges). */
export type Delivery = "all" | "pressing" | "none";

/** What shows that the mail of an earlier event has reached a model: this event alone, or Claude Code's transcript. */
export type Proof = "event" | "written" | "answered";

export interface Doorstep {
  mail: MailStore;
  recipient: string;
  claudeSessionId: string;
  claudePid: number;
  /** Where Claude Code keeps the conversation. */
  transcriptPath: string | null;
  proof: Proof;
  now: number;
}

export interface Delivered {
  shown: string[];
  acknowledged: string[];
  released: string[];
  /** There is mail that this event did not show. */
  isLeft: boolean;
}

/**
 * Acknowledges what this session was shown before, takes back what a dead one never read, and shows what is due. The
 * claim belongs to this process until the text is printed and to Claude Code from then on, so that a death of either
 * leaves the mail unread.
 */
export async function deliver(
  door: Doorstep,
  delivery: Delivery,
  print: (text: string) => void,
): Promise<Delivered> {
  const glance = await door.mail.glance(door.recipient);
  const settled = await settleClaims(door, glance.claims);
  const isLeft = glance.hasUnread || settled.released.length > 0;
  const isDue = delivery === "all" ? glance.hasUnread : delivery === "pressing" && glance.hasPressing;
  if (!isDue && (settled.released.length === 0 || delivery === "none")) return { ...settled, isLeft };

  const self = await markOf(process.pid);
  const injection = await door.mail.claim({
    recipient: door.recipient,
    claimant: { process: self, claudeSessionId: door.claudeSessionId },
    at: door.now,
    pressingOnly: delivery === "pressing",
    maxLength: MAX_INJECTION_LENGTH,
  });
  if (injection.included.length === 0) return { ...settled, isLeft: injection.left > 0 };
  print(injection.text);
  const shown = injection.included.map((message) => message.id);
  await door.mail.handOver(shown, self, await claimantOf(door));
  return { ...settled, shown, isLeft: injection.left > 0 };
}

async function settleClaims(
  door: Doorstep,
  claims: readonly Claimant[],
): Promise<Pick<Delivered, "shown" | "acknowledged" | "released">> {
  const settled = { shown: [] as string[], acknowledged: [] as string[], released: [] as string[] };
  if (claims.length === 0) return settled;
  const own = await claimantOf(door);
  for (const claim of claims) {
    if (claim.process === own.process && claim.claudeSessionId === own.claudeSessionId) {
      settled.acknowledged.push(...(await acknowledge(door, own)));
      if (door.proof === "answered") settled.released.push(...(await door.mail.release(door.recipient, own)));
    } else if (claim.process === own.process || !(await isAlive(claim.process))) {
      settled.released.push(...(await door.mail.release(door.recipient, claim)));
    }
  }
  return settled;
}

/** Claude Code writes its transcript some 50 ms behind, and later on a busy machine. */
const BEHIND_MS = 1_000;
const LOOK_AGAIN_MS = 50;

/** A prompt that was sent while a turn was running comes right after an answer that may not be written down yet. */
async function acknowledge(door: Doorstep, own: Claimant): Promise<string[]> {
  const { mail, recipient, now } = door;
  const acknowledged = await mail.acknowledge(recipient, own, now, await arrivals(door));
  const isHolding = async () =>
    (await mail.glance(recipient)).claims.some((one) => one.process === own.process);
  for (let waited = 0; door.proof === "answered" && waited < BEHIND_MS && (await isHolding()); ) {
    await Bun.sleep(LOOK_AGAIN_MS);
    waited += LOOK_AGAIN_MS;
    acknowledged.push(...(await mail.acknowledge(recipient, own, now, await arrivals(door))));
  }
  return acknowledged;
}

const TRANSCRIPT_TAIL_BYTES = 512 * 1024;

/**
 * A tool event may belong to the same answer as the one that printed the mail: then no model has been asked since, and
 * Claude Code writes what it was shown into its transcript only some 50 ms later. Killed before that, it never had it.
 */
async function arrivals(door: Doorstep): Promise<(id: string) => boolean> {
  if (door.proof === "event" || door.transcriptPath === null) return () => true;
  const transcript = Bun.file(door.transcriptPath);
  if (!(await transcript.exists())) return () => false;
  const tail = await transcript.slice(Math.max(0, transcript.size - TRANSCRIPT_TAIL_BYTES)).text();
  return door.proof === "written" ? (id) => tail.includes(id) : (id) => isInConversation(tail, id);
}

/**
 * Whoever interrupts Claude Code before it has answered a prompt gets the prompt back, and the conversation goes on as
 * if neither it nor what came with it had been.
 */
function isInConversation(transcript: string, id: string): boolean {
  const entries = transcript.split("\n").filter((entry) => !entry.startsWith('{"type":"api-request'));
  const at = entries.findLastIndex((entry) => entry.includes(id));
  if (at < entries.findLastIndex((entry) => entry.includes('"type":"assistant"'))) return at !== -1;
  return entries[at]?.includes('"hookEvent":"UserPromptSubmit"') === false;
}

async function claimantOf(door: Doorstep): Promise<Claimant> {
  return { process: await markOf(door.claudePid), claudeSessionId: door.claudeSessionId };
}

async function markOf(pid: number): Promise<string> {
  return (await processMark(pid)) ?? `${pid}:gone`;
}
