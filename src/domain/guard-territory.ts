import type { Denial, GuardFacts, Place } from "./guard-facts.ts";
import { isGlob, isMatch, withFoldersAbove } from "./scope.ts";
import type { Word } from "./shell.ts";

/** Where a command runs, as far as its command line tells; null after a `cd` to somewhere unknown. */
export type Folder = string | null;

/** Where a word leads, through every link; null when that is not known. */
export function pathOf(word: Word, cwd: Folder, place: Place): string | null {
  if (!word.isKnown || word.text === "") return null;
  if (word.text.startsWith("/")) return place.resolve(word.text);
  return cwd === null ? null : place.resolve(`${cwd}/${word.text}`);
}

/** Whose a resolved path is. */
export type Territory = "own" | "overseer" | "checkout" | "worker" | "temp" | "elsewhere";

export function territoryOf(path: string, facts: GuardFacts, place: Place): Territory {
  const { root, worktree } = facts;
  if (isIn(path, worktree)) return isOurs(path, facts) || isGitsOrOurs(path, worktree) ? "overseer" : "own";
  if (isIn(path, worktreesOf(facts))) return "worker";
  if (isIn(path, root)) return isGitsOrOurs(path, root) ? "overseer" : "checkout";
  for (const folder of place.temp) if (isIn(path, place.resolve(folder) ?? folder)) return "temp";
  return "elsewhere";
}

/** In any spelling: there are file systems for which `.GIT` is `.git`. */
function isGitsOrOurs(path: string, folder: string): boolean {
  const first = path
    .slice(folder.length + 1)
    .split("/", 1)[0]
    ?.toLowerCase();
  return first === ".git" || first === ".overseer";
}

function isOurs(path: string, { worktree, ours }: GuardFacts): boolean {
  const relative = path.slice(worktree.length + 1).toLowerCase();
  return isIn(path, worktree) && ours.some((file) => file.toLowerCase() === relative);
}

/** All the workers' checkouts are beside each other. */
function worktreesOf({ worktree }: GuardFacts): string {
  return worktree.slice(0, worktree.lastIndexOf("/"));
}

export function isIn(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** Where a worker may do as it likes: in its worktree, and among scratch files. */
export function isFree(path: string, facts: GuardFacts, place: Place): boolean {
  const territory = territoryOf(path, facts, place);
  return territory === "own" || territory === "temp";
}

/** Whether something that is not the worker's to remove is at this path, which may be a pattern, or below it. */
export function isTaboo(path: string, facts: GuardFacts, place: Place): boolean {
  const { root, worktree, ours } = facts;
  if (!isFree(path, facts, place)) return true;
  const kept = [root, worktree, ...[".git", ".overseer", ...ours].map((file) => `${worktree}/${file}`)];
  const isPattern = isGlob(path);
  const isCovered = (one: string) =>
    isIn(one, path) || (isPattern && withFoldersAbove(one).some((above) => isExpanded(path, above)));
  return kept.some(isCovered) || place.temp.some((folder) => isIn(place.resolve(folder) ?? folder, path));
}

/** As a shell does it, for which a star does not stand for what is hidden. */
function isExpanded(pattern: string, path: string): boolean {
  const parts = pattern.split("/");
  const isHidden = path.split("/").some((part, at) => part.startsWith(".") && !parts[at]?.startsWith("."));
  return !isHidden && isMatch(path, pattern);
}

export function elsewhere(path: string, territory: Territory, facts: GuardFacts): string {
  const { root, worktree, parent } = facts;
  switch (territory) {
    case "checkout":
      return `${path} is in the main checkout, which is not yours. Your copy is ${worktree}${path.slice(root.length)}: change that one.`;
    case "worker":
      return `${path} is in the worktree of another worker. Tell ${parent} or that worker by mail what should change there.`;
    default:
      return `${path} is outside of your worktree ${worktree}. Change files there; scratch files go into a folder of mktemp -d, by Bash.`;
  }
}

export function trespass(path: string, territory: Territory, facts: GuardFacts): Denial {
  if (territory === "overseer") {
    const what = path.startsWith(`${facts.worktree}/`) ? path.slice(facts.worktree.length + 1) : path;
    const reason = isOurs(path, facts)
      ? `${what} holds your orders and is overseer's: nobody edits it. If they are wrong, ask ${facts.parent}.`
      : `${what} is overseer's or git's own: nobody edits it by hand. Use the commands of overseer and git instead.`;
    return { rule: "overseer", reason };
  }
  return { rule: "outside", reason: elsewhere(path, territory, facts) };
}
