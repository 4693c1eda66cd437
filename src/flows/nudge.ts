import { OverseerError } from "../domain/errors.ts";
import { STANDING_ADDRESSES } from "../domain/names.ts";
import { isLive } from "../domain/session.ts";
import { type Sent, sendMail } from "./mail.ts";
import type { Caller, Project } from "./project.ts";
import { isLost } from "./running.ts";
import { currentWorker } from "./stop.ts";

/** A word that does not wait for the end of a turn. */
export async function nudge(project: Project, caller: Caller, name: string, text: string): Promise<Sent> {
  if (text.trim() === "") {
    throw new OverseerError("usage", "there is nothing to say", { hint: `overseer nudge ${name} "..."` });
  }
  if (STANDING_ADDRESSES.includes(name)) {
    throw new OverseerError("usage", `${name} is no worker, and only workers are nudged`, {
      hint: `overseer mail send --to ${name} --priority high --subject "..."`,
    });
  }
  const session = await currentWorker(project, name);
  if (!isLive(session.state) || (await isLost(session))) {
    const state = isLive(session.state) ? "dead" : session.state;
    throw new OverseerError("ended_otherwise", `${name} is ${state} and hears nothing`, {
      hint: session.state === "completed" ? `overseer diff ${name}` : `overseer resume ${name}`,
    });
  }
  const [sent] = await sendMail(project, {
    from: caller.name,
    to: [name],
    subject: `${caller.name} nudges you`,
    body: text,
    type: "nudge",
    priority: "high",
    threadId: null,
  });
  if (!sent) throw new Error("the nudge was not sent");
  return sent;
}
