import { isAlive } from "../effects/processes.ts";
import type { Session } from "../store/contract.ts";

/** Whether the very process that was recorded lives; the pane's picture tells nothing. */
export async function isRunning({ mark }: Pick<Session, "mark">): Promise<boolean> {
  return mark !== null && (await isAlive(mark));
}

/** Known to have had a process, and to have none any more. */
export async function isLost(session: Pick<Session, "mark">): Promise<boolean> {
  return session.mark !== null && !(await isRunning(session));
}
