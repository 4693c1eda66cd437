import {
  closeSync,
  cpSync,
  existsSync,
  fchmodSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { OverseerError } from "../domain/errors.ts";

/** The bytes of a file, null when there is none. */
export function readBytes(file: string): Buffer | null {
  return existsSync(file) ? asking(file, () => readFileSync(file)) : null;
}

/** All of it or none of it, whatever happens meanwhile; through a link, to what the link leads to. */
export function writeAtomically(file: string, content: string | Uint8Array): void {
  asking(file, () => {
    mkdirSync(dirname(file), { recursive: true });
    const target = existsSync(file) ? whereItLeads(file) : file;
    const mode = (statSync(target, { throwIfNoEntry: false })?.mode ?? 0o644) & 0o777;
    const beside = `${target}.overseer-${process.pid}`;
    try {
      writeSynced(beside, content, mode);
      renameSync(beside, target);
    } catch (error) {
      rmSync(beside, { force: true });
      throw error;
    }
  });
}

function writeSynced(file: string, content: string | Uint8Array, mode: number): void {
  const fd = openSync(file, "w", mode);
  try {
    fchmodSync(fd, mode); // what openSync is given passes the umask first
    writeFileSync(fd, content); // goes on after a short write, and fails where the disk is full
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Link by link: Bun's realpath says ENOENT of a file that another process is just replacing. */
function whereItLeads(file: string): string {
  let at = file;
  while (lstatSync(at).isSymbolicLink()) {
    const next = readlinkSync(at);
    at = next.startsWith("/") ? next : `${dirname(at)}/${next}`;
  }
  return at;
}

/** For this user's eyes alone, and only where nothing stands yet. */
export function writePrivately(file: string, content: string): void {
  asking(file, () => {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content, { mode: 0o600, flag: "wx" });
  });
}

/** A copy with the mode it had, a link as a link; not over anything that stands there. */
export function copyIfMissing(from: string, to: string): boolean {
  if (lstatSync(to, { throwIfNoEntry: false }) !== undefined) return false;
  asking(to, () => {
    mkdirSync(dirname(to), { recursive: true });
    cpSync(from, to, { errorOnExist: true, force: false, verbatimSymlinks: true });
  });
  return true;
}

/** Where a path really leads, through every link on the way. */
export function realPath(path: string): string {
  return asking(path, () => realpathSync(path));
}

/** The same for a path of which the end need not exist yet. */
export function settledPath(path: string): string {
  const whole = resolve(path);
  if (existsSync(whole)) return realPath(whole);
  const above = dirname(whole);
  return above === whole ? whole : `${settledPath(above)}/${basename(whole)}`;
}

/** A folder itself, and not a link to one. */
export function isRealFolder(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Returns whether the file was new. */
export function writeIfMissing(file: string, content: string): boolean {
  if (existsSync(file)) return false;
  writeAtomically(file, content);
  return true;
}

export function ensureFolder(folder: string): void {
  asking(folder, () => mkdirSync(folder, { recursive: true }));
}

export function listFolder(folder: string): string[] {
  return existsSync(folder) ? asking(folder, () => readdirSync(folder)).sort() : [];
}

/** What writers that are at work, or were killed, have beside a file. */
export function leftoversOf(file: string): { path: string; pid: number }[] {
  const beside = `${existsSync(file) ? whereItLeads(file) : file}.overseer-`;
  return listFolder(dirname(beside))
    .map((name) => `${dirname(beside)}/${name}`)
    .filter((path) => path.startsWith(beside))
    .map((path) => ({ path, pid: Number(path.slice(beside.length)) }))
    .filter(({ pid }) => Number.isInteger(pid));
}

/** Every file below a folder, as paths relative to it. */
export function filesBelow(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const entries = asking(folder, () => readdirSync(folder, { recursive: true, withFileTypes: true }));
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(folder.length + 1))
    .sort();
}

export function sizeOf(file: string): number {
  return existsSync(file) ? statSync(file).size : 0;
}

export function modifiedAt(file: string): number {
  return statSync(file).mtimeMs;
}

export function exists(file: string): boolean {
  return existsSync(file);
}

/** What stands at a path, without following a link that leads nowhere. */
export function kindOf(path: string): "file" | "folder" | "missing" | "other" {
  const found = statSync(path, { throwIfNoEntry: false }) ?? lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return "missing";
  if (found.isFile()) return "file";
  return found.isDirectory() ? "folder" : "other";
}

export function move(from: string, to: string): void {
  asking(from, () => renameSync(from, to));
}

export function remove(path: string): void {
  asking(path, () => rmSync(path, { recursive: true, force: true }));
}

export function removeIfEmpty(folder: string): void {
  // Not through a link, which is somebody else's.
  const isFolder = lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  if (isFolder && readdirSync(folder).length === 0) asking(folder, () => rmdirSync(folder));
}

function asking<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new OverseerError(
      "file_unwritable",
      `${path}: ${error instanceof Error ? error.message : String(error)}`,
      {
        hint: "check that it is yours and that the disk is not full",
        cause: error,
      },
    );
  }
}
