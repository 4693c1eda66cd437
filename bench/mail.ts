import { Database } from "bun:sqlite";
import { newMessageId } from "../src/effects/ids.ts";
import { pathsOf } from "../src/effects/paths.ts";
import { openMail } from "../src/store/sqlite/mail.ts";
import { type Measured, median, printTable } from "./measure.ts";
import { makeWorkplace } from "./workplace.ts";

/** What the mail store itself costs, in one process, against one plain insert into a WAL database. */
export async function benchMail(rounds: number): Promise<void> {
  const place = await makeWorkplace({ events: 0, mails: 20_000, agents: 50 });
  const mail = openMail(pathsOf(place.root).mail, { mayUpgrade: false });
  const floorDb = new Database(place.floorFile);
  floorDb.run("PRAGMA synchronous = NORMAL");
  const insert = floorDb.query("INSERT INTO floor (at, text) VALUES (?, ?)");
  const me = { process: "1:bench", claudeSessionId: "bench" };
  let sent = "";
  const steps: [string, () => Promise<unknown>][] = [
    ["floor: one insert", async () => insert.run(Date.now(), "one row")],
    ["look into an empty inbox", () => mail.glance("nobody")],
    [
      "send",
      () => {
        sent = newMessageId();
        return mail.send([message(sent)]);
      },
    ],
    ["look into an inbox with mail", () => mail.glance("bob")],
    [
      "claim",
      () =>
        mail.claim({ recipient: "bob", claimant: me, at: Date.now(), pressingOnly: false, maxLength: 8_000 }),
    ],
    ["hand over", () => mail.handOver([sent], me.process, me)],
    ["acknowledge", () => mail.acknowledge("bob", me, Date.now())],
  ];
  const samples = steps.map((): number[] => []);
  for (let round = 0; round < rounds * 10; round++) {
    for (const [at, [, step]] of steps.entries()) {
      const began = Bun.nanoseconds();
      await step();
      samples[at]?.push((Bun.nanoseconds() - began) / 1e6);
    }
  }
  const floor = median(samples[0] ?? []);
  const rows = steps.map(([name], at): Measured => {
    const medianMs = median(samples[at] ?? []);
    return { name, medianMs, ratio: medianMs / floor, bar: undefined };
  });
  printTable(`mail: 20,000 messages, median of ${rounds * 10}, ratio to one insert`, rows);
  mail.close();
  floorDb.close();
  place.remove();
}

function message(id: string) {
  return {
    id,
    from: "ada",
    to: "bob",
    subject: "A question",
    body: "Which of the two did you mean?",
    type: "question" as const,
    priority: "normal" as const,
    threadId: id,
    createdAt: Date.now(),
  };
}
