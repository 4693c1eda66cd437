/** Checks its inbox with `overseer mail check` until nobody sends any more and there is nothing left. */
import { existsSync } from "node:fs";
import { pathsOf } from "../../../src/effects/paths.ts";
import { openMail } from "../../../src/store/sqlite/mail.ts";
import { until } from "../until.ts";
import { begin, command, ensureSession, PATIENCE_MS, report, Stopwatch } from "./agent.ts";
import type { Printed, ReceiverJob, Report } from "./plan.ts";

const job = await begin<ReceiverJob>("receiver");
const watch = new Stopwatch();

await watch.time("register", () => ensureSession(job.root, job.inbox));
for (;;) {
  const isLast = existsSync(job.done);
  const count = await watch.time("check", check);
  if (count > 0) continue;
  if (isLast) break;
  await somethingToDo();
}
report({ kind: "finished", slowest: watch.slowest });

/** Returns how many messages were printed. */
async function check(): Promise<number> {
  let count = 0;
  await command(job.root, job.inbox, ["mail", "check"], (text) => {
    const { messages } = (JSON.parse(text) as { data: { messages: Printed[] } }).data;
    count = messages.length;
    // As the program does it: what it holds back when it is killed must be unread still.
    if (count > 0) process.stdout.write(`${JSON.stringify({ kind: "mail", messages } satisfies Report)}\n`);
  });
  return count;
}

/** New mail, a claim that may be of a process that is gone, or the end. */
async function somethingToDo(): Promise<void> {
  const mail = openMail(pathsOf(job.root).mail, { mayUpgrade: true });
  const isThere = async () => {
    const { hasUnread, claims } = await mail.glance(job.inbox);
    return hasUnread || claims.length > 0 || existsSync(job.done);
  };
  try {
    await until("there is mail", isThere, { timeoutMs: PATIENCE_MS });
  } finally {
    mail.close();
  }
}
