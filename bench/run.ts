/** `npm run bench [hooks] [mail] [reads] [sling] [--rounds N]`: prints ratios against a floor of the same run; judges nothing. */
import { benchHooks } from "./hooks.ts";
import { benchMail } from "./mail.ts";
import { benchReads } from "./reads.ts";
import { benchSling } from "./sling.ts";

const benches: Readonly<Record<string, (rounds: number) => Promise<void>>> = {
  hooks: benchHooks,
  mail: benchMail,
  reads: benchReads,
  sling: benchSling,
};

const words = process.argv.slice(2);
const roundsAt = words.indexOf("--rounds");
const rounds = roundsAt === -1 ? 100 : Number(words[roundsAt + 1]);
const asked = words.filter((word) => Object.hasOwn(benches, word));
for (const name of asked.length > 0 ? asked : Object.keys(benches)) await benches[name]?.(rounds);
