import { OverseerError } from "../domain/errors.ts";
import {
  hasHooks,
  hookGroups,
  isObject,
  type Settings,
  withHooks,
  withoutOurHooks,
} from "../domain/hook-settings.ts";
import { hasSection, withoutSection, withSection } from "../domain/marked-section.ts";
import { kindOf, leftoversOf, readBytes, remove, removeIfEmpty, writeAtomically } from "../effects/files.ts";
import { hookProgram, packageFile } from "../effects/package.ts";
import type { Paths } from "../effects/paths.ts";
import { processMark } from "../effects/processes.ts";

/**
 * The two files of the user's that init changes. What stood there before is kept byte for byte, so that uninstall can
 * put it back; where the user has changed a file since, only what is ours is taken out of it.
 */
interface Guest {
  file: string;
  /** What remains of a file of the user's in which nothing but ours is left. */
  empty: string;
  isIn(text: string): boolean;
  add(text: string | null): string;
  /** The same text when there is nothing of ours in it; null when nothing is left. */
  strip(text: string): string | null;
}

interface Kept {
  /** base64, or null where there was no file. */
  before: string | null;
  afterHash: string;
}
type Keepsakes = Record<string, Kept>;

function guests(paths: Paths): Guest[] {
  return [settingsGuest(paths), instructionsGuest(paths)];
}

function settingsGuest(paths: Paths): Guest {
  const groups = hookGroups("orchestrator", hookProgram(), paths.root);
  return {
    file: paths.settings,
    empty: "{}\n",
    isIn: (text) => hasHooks(parseSettings(text), groups),
    add: (text) => render(withHooks(parseSettings(text ?? "{}"), groups), text),
    strip(text) {
      const settings = parseSettings(text);
      const rest = withoutOurHooks(settings);
      if (rest === settings) return text;
      return Object.keys(rest).length === 0 ? null : render(rest, text);
    },
  };
}

function instructionsGuest(paths: Paths): Guest {
  const section = readTemplate("orchestrator.md");
  return {
    file: paths.claudeMd,
    empty: "",
    isIn: (text) => hasSection(text, section),
    add: (text) => withSection(text ?? "", section),
    strip: (text) => withoutSection(text) || (text === "" ? "" : null),
  };
}

export function readTemplate(name: string): string {
  const bytes = readBytes(packageFile("templates", name));
  if (!bytes)
    throw new OverseerError("bundle_missing", `templates/${name} is missing`, {
      hint: "install overseer again",
    });
  return bytes.toString("utf8");
}

/** What would be written, with nothing written yet: whatever is wrong with a file is said before anything changes. */
export interface Installation {
  record: Keepsakes;
  writes: { file: string; content: string; seen: Buffer | null }[];
}

export function planInstallation(paths: Paths): Installation {
  assertFolders(paths, [paths.claude]);
  // The files before the record: another init writes the record first, so whatever is seen of its work is explained.
  const found = guests(paths).map((guest) => ({ guest, current: readGuest(paths, guest) }));
  const known = readRecord(paths);
  const record: Keepsakes = { ...known };
  const writes: Installation["writes"] = [];
  for (const { guest, current } of found) {
    const before = originalOf(paths, guest, current, known[relative(paths, guest.file)]);
    const text = current && decode(paths, guest.file, current);
    const after = text !== null && guest.isIn(text) ? text : guest.add(before?.toString("utf8") ?? null);
    record[relative(paths, guest.file)] = {
      before: before?.toString("base64") ?? null,
      afterHash: hash(after),
    };
    if (current === null || !current.equals(Buffer.from(after)))
      writes.push({ file: guest.file, content: after, seen: current });
  }
  return { record, writes };
}

/**
 * The record before any of the user's files: killed in between, uninstall still knows what stood there. `written` are
 * the files of ours that were made meanwhile, known again by their hash.
 */
export function carryOut(paths: Paths, installation: Installation, written: readonly string[] = []): void {
  const made = written.map((file) => [
    relative(paths, file),
    { before: null, afterHash: hash(readBytes(file) ?? "") },
  ]);
  const all = { ...readRecord(paths), ...installation.record, ...Object.fromEntries(made) };
  const record = `${JSON.stringify(all, null, 2)}\n`;
  if (readBytes(paths.installed)?.toString("utf8") !== record) writeAtomically(paths.installed, record);
  for (const { file, content, seen } of installation.writes) {
    const current = readBytes(file);
    if (current?.equals(Buffer.from(content))) continue; // another init was faster
    if (current === null ? seen !== null : !seen?.equals(current))
      throw changedMeanwhile(relative(paths, file));
    writeAtomically(file, content);
  }
}

function changedMeanwhile(file: string): OverseerError {
  return new OverseerError("changed_meanwhile", `${file} was changed by somebody else at this very moment`, {
    hint: "try again",
  });
}

/** Whether a file of ours is still exactly as init wrote it; null when init was killed before it could note that. */
export function isAsWritten(paths: Paths, file: string): boolean | null {
  const kept = readRecord(paths)[relative(paths, file)];
  return kept ? kept.afterHash === hash(readBytes(file) ?? "") : null;
}

function relative(paths: Paths, file: string): string {
  return file.slice(paths.root.length + 1);
}

/** An init that was killed may have left half a file beside one; what another is just writing stays. */
export async function clearLeftovers(paths: Paths): Promise<void> {
  const home = [paths.ignore, paths.config, paths.manifest, paths.userHooks, paths.compiled, paths.installed];
  for (const { path, pid } of [paths.settings, paths.claudeMd, ...home].flatMap(leftoversOf)) {
    if ((await processMark(pid)) === null) remove(path);
  }
}

/** The user's files as they would be without us; null for one that would not be there. */
export function planRemoval(paths: Paths): { file: string; content: Buffer | null }[] {
  const known = readRecord(paths);
  return guests(paths).flatMap((guest) => {
    const current = readGuest(paths, guest);
    if (current === null) return [];
    const content = originalOf(paths, guest, current, known[relative(paths, guest.file)]);
    return content?.equals(current) ? [] : [{ file: guest.file, content }];
  });
}

export function removeFrom(paths: Paths, removal: ReturnType<typeof planRemoval>): void {
  for (const { file, content } of removal) {
    if (content === null) remove(file);
    else writeAtomically(file, content);
  }
  removeIfEmpty(paths.claude);
}

/** Refuses, before anything is written, what stands where a folder of ours or of Claude Code's must be. */
export function assertFolders(paths: Paths, folders: readonly string[]): void {
  for (const folder of folders) {
    if (!["folder", "missing"].includes(kindOf(folder))) throw inTheWay(paths, folder, "folder");
  }
}

function readGuest(paths: Paths, { file }: Guest): Buffer | null {
  if (!["file", "missing"].includes(kindOf(file))) throw inTheWay(paths, file, "file");
  return readBytes(file);
}

function inTheWay(paths: Paths, path: string, wanted: string): OverseerError {
  return new OverseerError(
    "file_unwritable",
    `${path.slice(paths.root.length + 1)} is not a ${wanted}, nor a link to one`,
    { hint: "move it away, then try again" },
  );
}

/** What is not UTF-8 could not be written back as it was. */
function decode(paths: Paths, file: string, bytes: Buffer): string {
  const text = bytes.toString("utf8");
  if (Buffer.from(text).equals(bytes)) return text;
  throw new OverseerError("settings_invalid", `${file.slice(paths.root.length + 1)} is not UTF-8 text`, {
    hint: "save it as UTF-8, then try again",
  });
}

function originalOf(
  paths: Paths,
  guest: Guest,
  current: Buffer | null,
  kept: Kept | undefined,
): Buffer | null {
  if (current === null) return null;
  const before =
    kept?.before === undefined || kept.before === null ? null : Buffer.from(kept.before, "base64");
  if (kept && kept.afterHash === hash(current)) return before;
  const text = decode(paths, guest.file, current);
  const stripped = guest.strip(text);
  if (stripped === null) return before && Buffer.from(guest.empty);
  return stripped === text ? current : Buffer.from(stripped);
}

function readRecord(paths: Paths): Keepsakes {
  const bytes = readBytes(paths.installed);
  if (!bytes) return {};
  try {
    const record: unknown = JSON.parse(bytes.toString("utf8"));
    return isObject(record) ? (record as Keepsakes) : {};
  } catch (error) {
    // Without it, our parts are still recognised by their marks; only the exact bytes before them are not known.
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

function parseSettings(text: string): Settings {
  const settings = parseJson(text.replace(/^\ufeff/, ""));
  if (!isObject(settings)) throw settingsInvalid("it is not an object");
  const { hooks = {} } = settings;
  const isList = (groups: unknown) => Array.isArray(groups);
  if (!isObject(hooks) || !Object.values(hooks).every(isList))
    throw settingsInvalid("its hooks are not lists by event");
  return settings;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw settingsInvalid(error.message, error);
  }
}

function settingsInvalid(why: string, cause?: unknown): OverseerError {
  return new OverseerError("settings_invalid", `.claude/settings.local.json cannot be read: ${why}`, {
    hint: "repair the file, or move it away, then try again",
    cause,
  });
}

function render(settings: Settings, like: string | null): string {
  const indent = like === null ? "  " : (/^[\t ]+(?=")/m.exec(like)?.[0] ?? "  ");
  const end = like === null || like.endsWith("\n") ? "\n" : "";
  return `${JSON.stringify(settings, null, indent)}${end}`;
}

function hash(content: string | Buffer): string {
  return Bun.CryptoHasher.hash("sha256", content, "hex");
}
