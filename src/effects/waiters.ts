import type { Paths } from "./paths.ts";

/**
 * The doors behind which the waiters of Claude Code sessions wait (hooks/waiter.sh): one FIFO per Claude Code process,
 * open for reading as long as somebody is there. node:fs is loaded only when somebody is to be woken.
 */
function doorOf(paths: Paths, claudePid: number): string {
  return `${paths.waiters}/${claudePid}`;
}

/** How long after a waiter has gone to wake its session the turn that it begins may take to begin. */
const ON_ITS_WAY_MS = 5_000;

/**
 * Wakes the session of that process; false when nobody waits there and nobody has just gone to wake it. A waiter that is
 * about to begin wakes it then.
 */
export function knock(paths: Paths, claudePid: number): boolean {
  const door = doorOf(paths, claudePid);
  if (say(door, "wake") || isOnItsWay(door)) return true;
  const fs = process.getBuiltinModule("node:fs");
  try {
    fs.writeFileSync(`${door}.wake`, "", { flag: "wx" });
  } catch (error) {
    if (!hasCode(error, ["EEXIST", "ENOENT"])) throw error;
  }
  return say(door, "wake");
}

/** Whoever brings mail in between need not wake it once more: it is shown by the prompt that the wake-up becomes. */
function isOnItsWay(door: string): boolean {
  const stats = process.getBuiltinModule("node:fs").lstatSync(`${door}.woken`, { throwIfNoEntry: false });
  return stats !== undefined && Date.now() - stats.mtimeMs < ON_ITS_WAY_MS;
}

/**
 * Before a prompt reads the mail, or once it was pasted: whatever brought mail until now need wake nobody any more, and
 * whatever brings some from now on must. Not with node:fs, which a hook would have to load.
 */
export async function forgetKnocks(paths: Paths, claudePid: number): Promise<void> {
  for (const trace of ["wake", "woken"]) {
    const file = Bun.file(`${doorOf(paths, claudePid)}.${trace}`);
    if (await file.exists()) await file.delete().catch(unlessGone);
  }
}

function unlessGone(error: unknown): void {
  if (!hasCode(error, ["ENOENT"])) throw error;
}

/** Sends every waiter away, without waking anybody. */
export function dismissWaiters(paths: Paths): void {
  const fs = process.getBuiltinModule("node:fs");
  if (!fs.existsSync(paths.waiters)) return;
  for (const name of fs.readdirSync(paths.waiters)) say(`${paths.waiters}/${name}`, "go");
}

/** Never follows a link nor writes into anything but a FIFO: what stands in the door's place may be anybody's. */
function say(door: string, word: "wake" | "go"): boolean {
  const fs = process.getBuiltinModule("node:fs");
  const { O_WRONLY, O_NONBLOCK, O_NOFOLLOW } = fs.constants;
  let fd: number;
  try {
    fd = fs.openSync(door, O_WRONLY | O_NONBLOCK | O_NOFOLLOW);
  } catch (error) {
    if (hasCode(error, NOBODY)) return false;
    throw error;
  }
  try {
    const own = fs.fstatSync(fd);
    if (!own.isFIFO()) return false;
    fs.writeSync(fd, `${word}\n`);
    // Behind a door that was replaced meanwhile, somebody may already have been sent away.
    return fs.lstatSync(door, { throwIfNoEntry: false })?.ino === own.ino || word === "go" || say(door, word);
  } catch (error) {
    // So many words are waiting there that this one makes no difference.
    if (hasCode(error, ["EAGAIN"])) return true;
    throw error;
  } finally {
    fs.closeSync(fd);
  }
}

/** No door, a door that nobody has open for reading, or something else in its place. */
const NOBODY = ["ENOENT", "ENXIO", "ENOTDIR", "EISDIR", "ELOOP", "EMLINK"];

function hasCode(error: unknown, codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}
