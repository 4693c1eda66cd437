import { OverseerError } from "../domain/errors.ts";
import { ORCHESTRATOR, quote } from "../domain/names.ts";
import { nearestFew } from "../domain/nearest.ts";
import type { PrimeFacts } from "../domain/prime.ts";
import { primeFacts } from "../store/prime-facts.ts";
import type { Project } from "./project.ts";

/** What an agent must know. A person asks as the orchestrator does. */
export async function readPrime(project: Project, name: string): Promise<PrimeFacts> {
  const session = await project.ledger.currentSession(name);
  if (!session && name !== ORCHESTRATOR) throw await unknownAgent(project, name);
  return await primeFacts(
    project.ledger,
    project.mail,
    { name, session, hasPast: true },
    project.clock.now(),
  );
}

export async function unknownAgent(project: Project, name: string): Promise<OverseerError> {
  const names = (await project.ledger.currentSessions()).map((session) => session.name);
  const near = nearestFew(name, names, 3);
  return new OverseerError("agent_unknown", `nobody is called ${quote(name)}`, {
    hint: near.length > 0 ? `did you mean ${near.join(" or ")}?` : "overseer status",
  });
}
