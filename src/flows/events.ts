import type { EventFilter, StoredEvent } from "../store/contract.ts";
import type { Project } from "./project.ts";

export type { EventFilter, StoredEvent };

const LOOK_AGAIN_MS = 500;

/** The newest events that match, oldest first. */
export function listEvents(project: Project, filter: EventFilter): Promise<StoredEvent[]> {
  return project.ledger.listEvents(filter);
}

/** The newest events that match and then, without end, every one that follows. */
export async function* followEvents(reopen: () => Project, filter: EventFilter): AsyncGenerator<StoredEvent> {
  let seen = 0;
  for (let project = reopen(); ; project = reopen()) {
    const events = await project.ledger.listEvents(
      seen === 0 ? filter : { ...filter, afterSeq: seen, limit: 10_000 },
    );
    for (const event of events) {
      yield event;
      seen = Math.max(seen, event.seq);
    }
    await Bun.sleep(LOOK_AGAIN_MS);
  }
}
