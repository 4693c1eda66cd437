import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { OverseerError } from "../domain/errors.ts";

/** The bytes of a file, null when there is none. */
export function readBytes(file: string): Buffer | null {
  return existsSync(file) ? asking(file, () => readFileSync(file)) : null;
}

/** All of it or none of it, whatever happens meanwhile; through a link, to what the link leads to. */
export function writeAtomically(file: string, content: string | Uint8Array): void {
  asking(file, () => {
    mkdirSync(dirname(file), { recursive: true });
    const target = existsSync(file) ? realpathSync(file) : file;
    const mode = existsSync(target) ? statSync(target).mode & 0o777 : 0o644;
    const beside = `${target}.overseer-${process.pid}`;
    const fd = openSync(beside, "w", mode);
    try {
      writeSync(fd, typeof content === "string" ? Buffer.from(content) : content);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(beside, target);
  });
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

export function move(from: string, to: string): void {
  asking(from, () => renameSync(from, to));
}

export function remove(path: string): void {
  asking(path, () => rmSync(path, { recursive: true, force: true }));
}

export function removeIfEmpty(folder: string): void {
  if (existsSync(folder) && readdirSync(folder).length === 0) asking(folder, () => rmdirSync(folder));
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
