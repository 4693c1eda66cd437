import { isPressing } from "../domain/mail.ts";
import { HUMAN, ORCHESTRATOR } from "../domain/names.ts";
import type { Sent } from "../flows/mail.ts";
import type { Style } from "./output.ts";

export function deliveryView({ message, reach }: Sent) {
  return { id: message.id, to: message.to, how: reach?.how ?? null, state: reach?.session?.state ?? null };
}

/** What was sent, and when its recipient sees it. */
export function sentText(sent: Sent, style: Style): string {
  const { id, to } = sent.message;
  const when = whenSeen(sent);
  return `${style.bold(id)} sent to ${to}${when === "" ? "" : style.dim(`: ${when}`)}`;
}

function whenSeen({ message, reach }: Sent): string {
  const { to } = message;
  if (reach === null) return "";
  if (to === HUMAN) return "a person reads it with overseer mail check";
  if (reach.how === "woken") return "it was idle and has been woken";
  if (reach.how === "busy")
    return isPressing(message) ? "it sees it after its next tool use" : "it sees it when its turn ends";
  return reach.session === null ? whenBack(to) : whenFree(to, reach.session);
}

function whenBack(to: string): string {
  return to === ORCHESTRATOR
    ? "nobody is there at the moment; it is shown when a Claude Code session begins in this repository"
    : `it is not running; it sees it after overseer resume ${to}`;
}

function whenFree(to: string, session: NonNullable<NonNullable<Sent["reach"]>["session"]>): string {
  if (session.state === "booting") return "it is starting, and sees it then";
  if (session.state === "waiting") return `it is waiting (${session.reason}), and sees it when it goes on`;
  return to === ORCHESTRATOR
    ? "it is idle, and sees it with its next prompt"
    : `it is idle and was not woken; it sees it with its next prompt: overseer attach ${to}`;
}
