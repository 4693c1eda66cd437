import type { Paths } from "./paths.ts";

/**
 * The doors behind which the waiters of Claude Code sessions wait (hooks/waiter.sh): one FIFO per Claude Code process,
 * open for reading as long as somebody is there. node:fs is loaded only when somebody is to be woken.
 */
function doorOf(paths: Paths, claudePid: number): string {
  return `${paths.waiters}/${claudePid}`;
}

/** Wakes the session of that process; false when nobody waits there. A waiter that is about to begin wakes it then. */
export function knock(paths: Paths, claudePid: number): boolean {
  const door = doorOf(paths, claudePid);
  if (say(door, "wake")) return true;
  const fs = process.getBuiltinModule("node:fs");
  if (!fs.existsSync(paths.waiters)) return false;
  fs.writeFileSync(`${door}.wake`, "");
  return say(door, "wake");
}

/** What `knock` left for a waiter that never came: the session has learned of its mail in another way. */
export function forgetKnock(paths: Paths, claudePid: number): void {
  process.getBuiltinModule("node:fs").rmSync(`${doorOf(paths, claudePid)}.wake`, { force: true });
}

/** Sends every waiter away, without waking anybody. */
export function dismissWaiters(paths: Paths): void {
  const fs = process.getBuiltinModule("node:fs");
  if (!fs.existsSync(paths.waiters)) return;
  for (const name of fs.readdirSync(paths.waiters)) say(`${paths.waiters}/${name}`, "go");
}

function say(door: string, word: "wake" | "go"): boolean {
  const fs = process.getBuiltinModule("node:fs");
  const { O_WRONLY, O_NONBLOCK } = fs.constants;
  let fd: number;
  try {
    fd = fs.openSync(door, O_WRONLY | O_NONBLOCK);
  } catch (error) {
    if (isNobody(error)) return false;
    throw error;
  }
  try {
    fs.writeSync(fd, `${word}\n`);
    return true;
  } finally {
    fs.closeSync(fd);
  }
}

/** No door, or a door that nobody has open for reading. */
function isNobody(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENXIO");
}
