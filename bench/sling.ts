import { rmSync } from "node:fs";
import { type Fleet, startFleet } from "../__tests__/support/fleet.ts";
import { median } from "./measure.ts";

const FILES = 1_000;
const MOST_ROUNDS = 20;
const NO_WAIT_BAR_MS = 150;
const WAIT_BAR_MS = 300;

/** Slinging the real claude, against `git worktree add` of the same repository in the same run. */
export async function benchSling(rounds: number): Promise<void> {
  const files = Object.fromEntries(
    Array.from({ length: FILES }, (_, i) => [`src/part-${i % 50}/file-${i}.ts`, `export const n = ${i};\n`]),
  );
  await using fleet = await startFleet({ files });
  const floor: number[] = [];
  const over: number[] = [];
  const late: number[] = [];
  const count = Math.min(rounds, MOST_ROUNDS);
  for (let round = -1; round < count; round++) {
    const added = addWorktree(fleet, round);
    const launched = await launch(fleet, `quick-${round + 2}`);
    const behind = await afterStart(fleet, `whole-${round + 2}`);
    if (round < 0) continue; // warms the caches
    floor.push(added);
    over.push(launched - added);
    late.push(behind);
  }
  console.log(`\nsling: the real claude, ${FILES} files, median of ${count}`);
  print("git worktree add (the floor)", median(floor));
  print("sling --no-wait, over the floor", median(over), NO_WAIT_BAR_MS);
  print("sling, after the worker's SessionStart hook", median(late), WAIT_BAR_MS);
}

function print(name: string, ms: number, bar?: number): void {
  const promise = bar === undefined ? "" : `  (bar ${bar} ms${ms > bar ? ", MISSED" : ""})`;
  console.log(`  ${name.padEnd(44)}  ${ms.toFixed(1).padStart(7)} ms${promise}`);
}

function addWorktree({ repo, root }: Fleet, round: number): number {
  const path = `${root}-floor`;
  const began = performance.now();
  repo.git("worktree", "add", "--quiet", "--no-track", "-b", `floor-${round + 1}`, path, "main");
  const took = performance.now() - began;
  repo.git("worktree", "remove", "--force", path);
  rmSync(path, { recursive: true, force: true });
  return took;
}

async function launch(fleet: Fleet, name: string): Promise<number> {
  const began = performance.now();
  await fleet.sling(name, "Look around and say what you see", "--no-wait");
  const took = performance.now() - began;
  await tidy(fleet, name);
  return took;
}

/** From the moment that the hook recorded to the moment that the command has returned. */
async function afterStart(fleet: Fleet, name: string): Promise<number> {
  await fleet.sling(name, "Look around and say what you see");
  const returned = Date.now();
  const [started] = await fleet.open((project) =>
    project.ledger.listEvents({ agent: name, type: "session.started", limit: 1 }),
  );
  await tidy(fleet, name);
  return returned - (started?.at ?? Number.NaN);
}

async function tidy(fleet: Fleet, name: string): Promise<void> {
  await fleet.overseer(["stop", name]);
  await fleet.overseer(["worktree", "clean", name]);
}
