import type { Run } from "../cli/command.ts";
import { inboxOf } from "../cli/show-mail.ts";
import { iso } from "../cli/views.ts";
import { HUMAN, ORCHESTRATOR } from "../domain/names.ts";
import { type PrimeFacts, renderPrime } from "../domain/prime.ts";
import { readPrime } from "../flows/prime.ts";

export const run: Run = async (context, typed) => {
  const name = await inboxOf(context, typed.text("agent"));
  const facts = await readPrime(context.project, name === HUMAN ? ORCHESTRATOR : name);
  context.output.done(view(facts), () => renderPrime(facts, typed.has("compact")));
};

function view(facts: PrimeFacts) {
  return {
    ...facts,
    now: iso(facts.now),
    lastEvents: facts.lastEvents.map((event) => ({ ...event, at: iso(event.at) })),
    others: facts.others.map((other) => ({ ...other, since: iso(other.since) })),
  };
}
