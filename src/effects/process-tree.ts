import { readdirSync } from "node:fs";
import { isAlive, processMark } from "./processes.ts";
import { readText } from "./raw-files.ts";
import { run } from "./run.ts";

const LOOK_AGAIN_MS = 20;

/** Ends a process and whatever it has started. */
export async function endTree(mark: string, graceMs: number): Promise<void> {
  await endAll(await treeOf(mark), graceMs);
}

/** A process and whatever it has started; to be asked before anything is sent, since an orphan tells not whose it was. */
export async function treeOf(mark: string): Promise<string[]> {
  if (!(await isAlive(mark))) return [];
  return [mark, ...(await marksBelow(Number(mark.slice(0, mark.indexOf(":")))))];
}

/** Asks the first to end, and after the grace makes all of them. */
export async function endAll(tree: readonly string[], graceMs: number): Promise<void> {
  const [mark] = tree;
  if (mark === undefined) return;
  await signal(mark, "SIGTERM");
  const deadline = performance.now() + graceMs;
  while (performance.now() < deadline && (await isAlive(mark))) await Bun.sleep(LOOK_AGAIN_MS);
  for (const each of tree) await signal(each, "SIGKILL");
  while (performance.now() < deadline + graceMs && (await isAlive(mark))) await Bun.sleep(LOOK_AGAIN_MS);
}

async function marksBelow(pid: number): Promise<string[]> {
  const parents = await parentsOfAll();
  const below = [pid];
  // Grows while it is walked: the children of the children follow. Not ourselves, whoever started us.
  for (const above of below) {
    for (const [child, parent] of parents) if (parent === above && child !== process.pid) below.push(child);
  }
  const marks = await Promise.all(below.slice(1).map(processMark));
  return marks.filter((mark) => mark !== null);
}

async function parentsOfAll(): Promise<[pid: number, parent: number][]> {
  if (process.platform !== "linux") return await parentsFromPs();
  const pids = readdirSync("/proc").map(Number).filter(Number.isInteger);
  return pids.flatMap((pid) => {
    const stat = readText(`/proc/${pid}/stat`) ?? "";
    const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
    return Number.isInteger(parent) ? [[pid, parent] as [number, number]] : [];
  });
}

async function parentsFromPs(): Promise<[number, number][]> {
  const { stdout } = await run(["ps", "-axo", "pid=,ppid="], { timeoutMs: 5_000 });
  return stdout
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number))
    .map(([pid = 0, parent = 0]) => [pid, parent]);
}

/** Only to the very process that was meant. */
async function signal(mark: string, name: NodeJS.Signals): Promise<void> {
  if (!(await isAlive(mark))) return;
  try {
    process.kill(Number(mark.slice(0, mark.indexOf(":"))), name);
  } catch (error) {
    const isGone = error instanceof Error && "code" in error && error.code === "ESRCH";
    if (!isGone) throw error;
  }
}
