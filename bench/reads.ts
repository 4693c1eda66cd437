import { packageFile } from "../src/effects/package.ts";
import { type Case, measure, printTable } from "./measure.ts";
import { makeWorkplace } from "./workplace.ts";

const COMMANDS = [
  "status",
  "mail list",
  "mail list --unread",
  "events",
  "events --agent agent-7",
  "events --type session.tool_failed",
  "events --since 1h",
  "task list",
];

/** Looking at 1,000,000 events and 200 agents, against looking at an empty ledger: at most twice as long plus 20 ms. */
export async function benchReads(rounds: number): Promise<void> {
  const empty = await makeWorkplace({ events: 0, mails: 0, agents: 0 });
  const full = await makeWorkplace({ events: 1_000_000, mails: 20_000, agents: 200 });
  try {
    for (const command of COMMANDS) {
      const at = (name: string, place: typeof empty): Case => ({
        name: `${command}, ${name}`,
        command: `exec '${packageFile("bin", "overseer")}' ${command}`,
        env: place.env,
        cwd: place.root,
      });
      const cases = [at("empty", empty), at("full", full)];
      const [floor, loaded] = measure(cases, rounds);
      if (!floor || !loaded) throw new Error("nothing was measured");
      const bar = 2 + 20 / floor.medianMs;
      printTable(`reads: ${command}, median of ${rounds}`, [floor, { ...loaded, bar }]);
    }
  } finally {
    empty.remove();
    full.remove();
  }
}
