import { readText } from "./raw-files.ts";

/**
 * A process is a pid and the moment it began, as `pid:start`: numbers are used again. The start is whatever the system
 * tells, only ever compared for equality.
 */
export async function processMark(pid: number): Promise<string | null> {
  const start = process.platform === "linux" ? startFromProc(pid) : await startFromPs(pid);
  return start === null ? null : `${pid}:${start}`;
}

export async function isAlive(mark: string): Promise<boolean> {
  const pid = Number(mark.slice(0, mark.indexOf(":")));
  return Number.isInteger(pid) && pid > 0 && (await processMark(pid)) === mark;
}

/** The processes above this one, nearest first. */
export async function ancestors(pid: number): Promise<string[]> {
  const found: string[] = [];
  for (let at = await parentOf(pid); at !== null && at > 1 && found.length < 64; at = await parentOf(at)) {
    found.push((await processMark(at)) ?? `${at}:gone`);
  }
  return found;
}

async function parentOf(pid: number): Promise<number | null> {
  const text = process.platform === "linux" ? (statFields(pid)?.[1] ?? null) : await ps(pid, "ppid=");
  const parent = Number(text);
  return text === null || !Number.isInteger(parent) ? null : parent;
}

function startFromProc(pid: number): string | null {
  const fields = statFields(pid);
  // A defunct process has ended; only its number is still taken.
  return fields === null || fields[0] === "Z" ? null : (fields[19] ?? null);
}

/** The fields of /proc/pid/stat after the command's name, which may itself contain spaces and brackets. */
function statFields(pid: number): string[] | null {
  const stat = readText(`/proc/${pid}/stat`);
  return stat === null || stat === "" ? null : stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

async function startFromPs(pid: number): Promise<string | null> {
  return await ps(pid, "lstart=");
}

async function ps(pid: number, column: string): Promise<string | null> {
  const { run } = await import("./run.ts");
  const result = await run(["ps", "-o", column, "-p", String(pid)], { timeoutMs: 5_000 });
  const text = result.stdout.trim();
  return result.exitCode === 0 && text !== "" ? text.replaceAll(/\s+/g, "-") : null;
}
