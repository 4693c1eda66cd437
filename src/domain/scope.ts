import { OverseerError } from "./errors.ts";
import { quote } from "./names.ts";

/** Part of a repository that a worker holds for itself: a path, a folder or a glob, compared by its literal prefix. */
const GLOB = /[*?[{]/;

/** As the worker's scope keeps it: relative to the root, without `./` and a trailing slash. */
export function toScope(text: string): string {
  const parts = text.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.length === 0 && text !== "" && !text.startsWith("/")) throw wholeRepository(text);
  const isOutside = text.startsWith("/") || parts.includes("..");
  if (parts.length > 0 && !isOutside && !/[\0\n]/.test(text)) return parts.join("/");
  throw new OverseerError("usage", `${quote(text)} is not a path inside the repository`, {
    hint: "--files takes files, folders and globs relative to the root, such as src/login,docs/*.md",
  });
}

function wholeRepository(text: string): OverseerError {
  return new OverseerError("usage", `${quote(text)} is the whole repository, which is nobody's alone`, {
    hint: "name files or folders in it, or leave --files out",
  });
}

export function overlaps(one: string, other: string): boolean {
  return reaches(one, other) || reaches(other, one);
}

/** Whether everything that `scope` names lies within `around`; a glob within a glob only if they are the same. */
export function isWithin(scope: string, around: string): boolean {
  return scope === around || (!GLOB.test(around) && prefixOf(scope).startsWith(`${around}/`));
}

/**
 * Whether a file belongs to what a worker holds. A folder holds all that is in it, also one that a glob names; a path
 * such as `app/[slug]/page.tsx` may be meant as it stands.
 */
export function isInScope(file: string, fileScope: readonly string[]): boolean {
  return fileScope.some((scope) => {
    if (file === scope || file.startsWith(`${scope}/`)) return true;
    return isGlob(scope) && withFoldersAbove(file).some((path) => isMatch(path, scope));
  });
}

export function isGlob(text: string): boolean {
  return GLOB.test(text);
}

/** Where `!` would turn the meaning round, it stands for itself. */
export function isMatch(path: string, glob: string): boolean {
  return new Bun.Glob(glob.startsWith("!") ? `\\${glob}` : glob).match(path);
}

/** `a/b/c` is in `a/b`, which is in `a`. */
export function withFoldersAbove(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}

function reaches(from: string, to: string): boolean {
  const prefix = prefixOf(from);
  const target = prefixOf(to);
  if (GLOB.test(from)) return target.startsWith(prefix);
  return target === prefix || target.startsWith(`${prefix}/`);
}

function prefixOf(scope: string): string {
  const at = scope.search(GLOB);
  return at === -1 ? scope : scope.slice(0, at);
}

/** Whoever holds files: a live worker, or one that has ended with work that has not landed. */
export interface Holder {
  name: string;
  parent: string | null;
  fileScope: readonly string[];
}

/** The first overlap with somebody who is neither above nor below the candidate. */
export function scopeConflict(
  candidate: Holder,
  holders: readonly Holder[],
): { holder: string; scope: string } | null {
  const family = relatives(candidate, holders);
  for (const holder of holders) {
    if (family.has(holder.name)) continue;
    const scope = holder.fileScope.find((held) =>
      candidate.fileScope.some((wanted) => overlaps(wanted, held)),
    );
    if (scope !== undefined) return { holder: holder.name, scope };
  }
  return null;
}

function relatives(candidate: Holder, all: readonly Holder[]): Set<string> {
  const parents = new Map(all.map(({ name, parent }) => [name, parent]));
  const ancestorsOf = (parent: string | null) => {
    const found: string[] = [];
    for (let at = parent; at !== null && !found.includes(at); at = parents.get(at) ?? null) found.push(at);
    return found;
  };
  const below = all.filter(({ parent }) => ancestorsOf(parent).includes(candidate.name));
  return new Set([candidate.name, ...ancestorsOf(candidate.parent), ...below.map(({ name }) => name)]);
}
