import { OverseerError } from "../domain/errors.ts";
import { typed } from "../domain/shell-word.ts";
import { exists, settledPath } from "../effects/files.ts";
import { pathsOf } from "../effects/paths.ts";
import { isAlive } from "../effects/processes.ts";
import { findRoot } from "../effects/root.ts";
import type { Session } from "../store/contract.ts";
import type { Project } from "./project.ts";

/** Whether the very process that was recorded lives; the pane's picture tells nothing. */
export async function isRunning({ mark }: Pick<Session, "mark">): Promise<boolean> {
  return mark !== null && (await isAlive(mark));
}

/** Known to have had a process, and to have none any more. */
export async function isLost(session: Pick<Session, "mark">): Promise<boolean> {
  return session.mark !== null && !(await isRunning(session));
}

/** Another overseer is just starting it. */
export async function isBeingMade({ ledger }: Project, { id }: Pick<Session, "id">): Promise<boolean> {
  const owner = (await ledger.findAction(id))?.owner ?? null;
  return owner !== null && (await isAlive(owner));
}

/** The other repository that a worktree belongs to: whoever copies one that has workers copies their rows with it. */
export function otherHome({ paths }: Project, worktree: string | null): string | null {
  const root = worktree === null ? null : findRoot(worktree);
  if (root === null || settledPath(root) === settledPath(paths.root)) return null;
  return exists(pathsOf(root).ledger) ? root : null;
}

/** Before anything is done to its process: one that works for another repository is none of our business. */
export function assertOurs(project: Project, { name, worktree }: Pick<Session, "name" | "worktree">): void {
  const other = otherHome(project, worktree);
  if (other === null) return;
  throw new OverseerError("worker_elsewhere", `${name} belongs to ${other}, which this is a copy of`, {
    hint: `there: cd ${typed(other)} && overseer status`,
  });
}
