import { OverseerError } from "../domain/errors.ts";
import { HUMAN, ORCHESTRATOR, quote } from "../domain/names.ts";
import { isLive } from "../domain/session.ts";
import { ancestors } from "../effects/processes.ts";
import { hashToken } from "../effects/tokens.ts";
import type { Session } from "../store/contract.ts";
import type { Caller, Environment, Project } from "./project.ts";

/**
 * A worker is known by its token and by nothing else; whoever looks like a worker but has none is refused, so that a
 * worker that lost its environment does not act as the person. Detection and order, not a wall: all run as one user.
 */
export async function identify(project: Project): Promise<Caller> {
  const token = project.env.OVERSEER_TOKEN;
  if (token) return await byToken(project, token);
  await refuseLostWorkers(project);
  return project.env.CLAUDECODE ? { kind: ORCHESTRATOR, name: ORCHESTRATOR } : { kind: HUMAN, name: HUMAN };
}

/** The caller, checked against the name that `--agent` or `--from` gives. Only a worker is held to its own. */
export function assertOwnName(caller: Caller, name: string | undefined, flag: string): void {
  if (caller.kind !== "worker" || name === undefined || name === caller.name) return;
  throw new OverseerError("not_you", `you are ${caller.name}, not ${quote(name)}`, {
    hint: `leave ${flag} out: your commands always act as ${caller.name}`,
  });
}

/** Setting up, taking out and repairing are the person's and the orchestrator's. */
export function refuseWorkers(env: Environment, cwd: string): void {
  const isInWorktree = cwd.includes("/.overseer/worktrees/");
  if (!env.OVERSEER_TOKEN && !env.OVERSEER_AGENT_NAME && !isInWorktree) return;
  throw new OverseerError("not_you", "a worker does not set up, repair or remove overseer", {
    hint: 'overseer mail send --to orchestrator --subject "..." --body "what is wrong"',
  });
}

/** A worker may act on those below it; a person and the orchestrator on everybody. */
export async function isBelow(project: Project, caller: Caller, target: Session): Promise<boolean> {
  if (caller.kind !== "worker") return true;
  let above = target.parent;
  for (let steps = 0; above !== null && above !== caller.name && steps < 100; steps++) {
    above = (await project.ledger.currentSession(above))?.parent ?? null;
  }
  return above === caller.name;
}

export async function assertMayAct(project: Project, caller: Caller, target: Session): Promise<void> {
  if (caller.kind !== "worker" || (await isBelow(project, caller, target))) return;
  throw new OverseerError("not_you", `${target.name} does not work for ${caller.name}`, {
    hint: `overseer mail send --to ${caller.session.parent ?? ORCHESTRATOR} --subject "..." --body "..."`,
  });
}

async function byToken(project: Project, token: string): Promise<Caller> {
  const found = await project.ledger.findSession({ tokenHash: hashToken(token) });
  if (!found) {
    throw new OverseerError("token_unknown", "OVERSEER_TOKEN belongs to no session of this project", {
      hint: "unset OVERSEER_TOKEN if you are not a worker",
    });
  }
  const { session, isCurrent } = found;
  if (!isCurrent) {
    throw new OverseerError(
      "not_you",
      `this is an older session of ${session.name}; a newer one has taken its place`,
      {
        hint: "overseer status",
      },
    );
  }
  return { kind: "worker", name: session.name, session };
}

async function refuseLostWorkers(project: Project): Promise<void> {
  const { env, cwd } = project;
  const workers = (await project.ledger.currentSessions()).filter(
    (session) => session.capability !== ORCHESTRATOR,
  );
  const above = workers.some((worker) => worker.mark !== null) ? await ancestors(process.pid) : [];
  const lost = workers.find(
    (worker) =>
      worker.name === env.OVERSEER_AGENT_NAME ||
      (worker.claudeSessionId !== null && worker.claudeSessionId === env.CLAUDE_CODE_SESSION_ID) ||
      isInside(cwd, worker) ||
      (isLive(worker.state) && worker.mark !== null && above.includes(worker.mark)),
  );
  const isElsewhere = !cwd.startsWith(`${project.paths.worktrees}/`);
  if (!lost && isElsewhere && !env.OVERSEER_AGENT_NAME) return;
  throw new OverseerError(
    "worker_without_token",
    `this looks like ${lost ? `${lost.name}'s session` : "a worker"}, but OVERSEER_TOKEN is missing`,
    {
      hint: `run it from ${project.paths.root}; a worker's own commands keep the environment it was started with`,
    },
  );
}

function isInside(cwd: string, worker: Session): boolean {
  return worker.worktree !== null && (cwd === worker.worktree || cwd.startsWith(`${worker.worktree}/`));
}
