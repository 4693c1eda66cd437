import type { Run } from "../cli/command.ts";
import { inboxOf } from "../cli/show-mail.ts";
import { HUMAN, ORCHESTRATOR } from "../domain/names.ts";
import { renderPrime } from "../domain/prime.ts";
import { readPrime } from "../flows/prime.ts";

export const run: Run = async (context, typed) => {
  const name = await inboxOf(context, typed.text("agent"));
  const facts = await readPrime(context.project, name === HUMAN ? ORCHESTRATOR : name);
  context.output.done({ ...facts, now: new Date(facts.now).toISOString() }, () =>
    renderPrime(facts, typed.has("compact")),
  );
};
