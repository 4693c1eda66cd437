import { OverseerError } from "../domain/errors.ts";
import { isAlive, processMark } from "../effects/processes.ts";
import type { Project } from "./project.ts";

const LOOK_AGAIN_MS = 10;
const PATIENCE_MS = 120_000;

/** This process, as the ledger knows owners. */
export async function selfMark(): Promise<string> {
  return (await processMark(process.pid)) ?? `${process.pid}:self`;
}

/** One at a time in this project; whoever dies with the lease loses it. */
export async function withLease<T>(project: Project, name: string, work: () => Promise<T>): Promise<T> {
  const self = await selfMark();
  const deadline = performance.now() + PATIENCE_MS;
  let dead: string | null = null;
  for (;;) {
    const expiresAt = project.clock.now() + PATIENCE_MS;
    const holder = await project.ledger.takeLease(name, self, dead, expiresAt);
    if (holder === null) break;
    if (performance.now() > deadline) throw busy(name, holder);
    dead = (await isAlive(holder)) ? null : holder;
    if (dead === null) await Bun.sleep(LOOK_AGAIN_MS);
  }
  try {
    return await work();
  } finally {
    await project.ledger.dropLease(name, self);
  }
}

function busy(name: string, holder: string): OverseerError {
  return new OverseerError("command_timeout", `another overseer (${holder.split(":")[0]}) holds ${name}`, {
    hint: "try again in a moment",
  });
}
