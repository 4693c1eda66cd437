import { OverseerError } from "../domain/errors.ts";
import { typed } from "../domain/shell-word.ts";
import { exists, isRealFolder, listFolder, settledPath } from "../effects/files.ts";
import { agentFiles } from "../effects/paths.ts";
import {
  commitOf,
  deleteBranch,
  headOf,
  innerRepositories,
  isCheckout,
  isContained,
  isReachable,
  listWorktrees,
  putAside,
  removeWorktree,
  saveTips,
  saveWork,
  uncommitted,
} from "../effects/worktrees.ts";
import type { Session } from "../store/contract.ts";
import { withLease } from "./lease.ts";
import { within } from "./manifest.ts";
import { type Project, tell } from "./project.ts";
import { otherHome } from "./running.ts";

/** What a worker has left in git: a worktree, a branch, or both. */
export interface Leavings {
  name: string;
  worktree: string;
  hasWorktree: boolean;
  branch: string | null;
  /** The tip of the branch and the head of the worktree, as far as there are any. */
  tips: string[];
  dirty: string[];
  /** Why it cannot be removed even when forced: nothing of it could be saved. */
  obstacle: OverseerError | null;
  /** Everything that was committed is in the canonical branch, or was there before the worker came. */
  isLanded: boolean;
}

export interface Known {
  name: string;
  branch: string | null;
  baseCommit: string | null;
}

/** A name that the ledger knows nothing of. */
export function nobody(name: string): Known {
  return { name, branch: null, baseCommit: null };
}

export async function worktreePath(project: Project, name: string): Promise<string> {
  const { config } = await project.config();
  // As git prints it: a link or `..` on the way would make its worktrees look like strangers.
  return `${settledPath(within(project, config.worktrees.baseDir))}/${name}`;
}

/** What there is and what of it has landed; git may write an object to compare with. Null when there is nothing. */
export async function examineLeavings(project: Project, known: Known): Promise<Leavings | null> {
  const { git, paths } = project;
  const worktree = await worktreePath(project, known.name);
  const hasWorktree = exists(worktree);
  const branchTip =
    known.branch === null ? null : await commitOf(git, paths.root, `refs/heads/${known.branch}`);
  const recorded = (await listWorktrees(git, paths.root)).find(({ path }) => path === worktree);
  const isOurs = recorded !== undefined && worktree !== paths.root;
  const isKnown = hasWorktree && isOurs && (await isCheckout(git, worktree));
  const head = isKnown ? await headOf(git, worktree) : await commitOf(git, paths.root, recorded?.head ?? "");
  if (!hasWorktree && branchTip === null && head === null) return null;
  const aside = isKnown ? await putAside(git, worktree) : [];
  const tips = [...new Set([branchTip, head, ...aside].filter((tip) => tip !== null))];
  const dirty = isKnown ? await uncommitted(git, worktree, agentFiles(paths, known.name).excludes) : [];
  const inner = isKnown ? await innerRepositories(git, worktree, dirty) : [];
  return {
    name: known.name,
    worktree,
    hasWorktree,
    branch: branchTip === null ? ownBranch(recorded?.branch ?? null) : known.branch,
    tips,
    dirty,
    obstacle: obstacleOf({
      worktree,
      other: hasWorktree ? otherHome(project, worktree) : null,
      isUnknown: hasWorktree && !isKnown && !isHalfMade(worktree),
      isLocked: recorded?.isLocked === true,
      inner,
    }),
    isLanded: await areLanded(project, tips, known),
  };
}

/** Of an earlier incarnation, when the ledger's newest never came to make its own. */
function ownBranch(branch: string | null): string | null {
  return branch?.startsWith("overseer/") ? branch : null;
}

/** All that git has made of a worktree before it is in its list. */
function isHalfMade(folder: string): boolean {
  return isRealFolder(folder) && listFolder(folder).every((file) => file === ".git");
}

interface Place {
  worktree: string;
  other: string | null;
  isUnknown: boolean;
  isLocked: boolean;
  inner: readonly string[];
}

function obstacleOf({ worktree, other, isUnknown, isLocked, inner }: Place): OverseerError | null {
  const refuse = (what: string, hint: string) => new OverseerError("worktree_left", what, { hint });
  // Not to be repaired: git would take it for the other's own, which has moved.
  if (other !== null) {
    return refuse(`${worktree} belongs to ${other}`, "move it away if it is a copy, then try again");
  }
  if (isUnknown) {
    const hint = `move it away and choose another name, or, if it is one: git worktree repair ${typed(worktree)}`;
    return refuse(`${worktree} is there, and git knows of no worktree in that place`, hint);
  }
  if (isLocked) return refuse(`${worktree} is locked`, `git worktree unlock ${typed(worktree)}`);
  if (inner.length === 0) return null;
  const what = `${inner.join(", ")} in ${worktree} is a repository of its own, with work that is nowhere else`;
  return refuse(what, "push that work or move it out of the worktree, then try again");
}

async function areLanded(project: Project, tips: readonly string[], known: Known): Promise<boolean> {
  const { git, paths } = project;
  const { config } = await project.config();
  const canonical = await commitOf(git, paths.root, `refs/heads/${config.project.canonicalBranch}`);
  for (const tip of tips) {
    const isUntouched =
      tip === known.baseCommit && (await isReachable(git, paths.root, tip, known.branch ?? ""));
    if (isUntouched || (canonical !== null && (await isContained(git, paths.root, tip, canonical)))) continue;
    return false;
  }
  return true;
}

export function isSafe(leavings: Leavings): boolean {
  return leavings.isLanded && leavings.dirty.length === 0 && leavings.obstacle === null;
}

export function refusal({ name, dirty, obstacle }: Leavings, session: Session | null): OverseerError {
  if (obstacle !== null) return obstacle;
  const canGoOn = session !== null && session.state !== "completed" && session.worktree !== null;
  const look = session === null ? "" : `overseer diff ${name} shows it; `;
  const goOn = canGoOn ? `overseer resume ${name} goes on with it; ` : "";
  const hint = `${look}${goOn}overseer worktree clean ${name} --force saves it under a ref first`;
  if (dirty.length === 0) {
    const what = `${name} has commits that are not in the canonical branch`;
    return new OverseerError("worktree_unmerged", what, { hint });
  }
  const shown =
    dirty.length > 5 ? `${dirty.slice(0, 5).join(", ")} and ${dirty.length - 5} more` : dirty.join(", ");
  return new OverseerError("worktree_dirty", `${name} has uncommitted changes in ${shown}`, { hint });
}

export interface Removed {
  /** Where what had not landed is kept; null when there was nothing of the kind. */
  rescueRef: string | null;
  branch: string | null;
}

/** What is done before and after while nobody else is at it. */
interface Around {
  /** Throws when somebody has come back meanwhile. */
  mayStill?: () => Promise<void>;
  record?: (removed: Removed) => Promise<void>;
}

/**
 * Removes worktree and branch; what has not landed is saved first, and only then. All is looked at again once nobody
 * else is at it: what was safe must still be.
 */
export async function discard(
  project: Project,
  seen: Leavings,
  known: Known,
  { mayStill, record }: Around = {},
): Promise<Removed> {
  return await withLease(project, "worktrees", async () => {
    await mayStill?.();
    const leavings = await examineLeavings(project, known);
    if (leavings !== null && isSafe(seen) && !isSafe(leavings)) throw refusal(leavings, null);
    const removed = leavings ? await removeLeavings(project, leavings) : { rescueRef: null, branch: null };
    await record?.(removed);
    return removed;
  });
}

/** What a spawn has made and nobody has worked in: there is nothing to save. */
export async function takeBack(project: Project, known: Known): Promise<void> {
  await withLease(project, "worktrees", async () => {
    const leavings = await examineLeavings(project, known);
    const asMade = { dirty: [], isLanded: true, obstacle: null };
    // On another branch it is not what was made now.
    const isItsOwn = leavings?.branch === null || leavings?.branch === known.branch;
    if (leavings !== null && isItsOwn) await removeLeavings(project, { ...leavings, ...asMade });
  });
}

async function removeLeavings(project: Project, leavings: Leavings): Promise<Removed> {
  if (leavings.obstacle !== null) throw leavings.obstacle;
  const rescueRef = isSafe(leavings) ? null : await rescue(project, leavings);
  const { git, paths } = project;
  const { branch, worktree, tips } = leavings;
  const isElsewhere = (await listWorktrees(git, paths.root)).some(
    (other) => other.branch === branch && other.path !== worktree,
  );
  const [tip] = tips;
  await removeWorktree(git, paths.root, worktree);
  if (branch !== null && tip !== undefined && !isElsewhere) await deleteBranch(git, paths.root, branch, tip);
  return { rescueRef, branch };
}

async function rescue(project: Project, { name, worktree, hasWorktree, tips }: Leavings): Promise<string> {
  const { git, paths, clock } = project;
  const at = clock.now();
  const ref = `refs/overseer/rescue/${name}/${new Date(at).toISOString().replaceAll(/[:.]/g, "-")}`;
  const files = agentFiles(paths, name);
  if (hasWorktree && exists(`${worktree}/.git`)) {
    const scratchIndex = files.scratchIndex("rescue", process.pid);
    await saveWork(git, { ref, worktree, tips, scratchIndex, excludes: files.excludes });
  } else {
    await saveTips(git, paths.root, ref, tips);
  }
  await tell(project, [{ at, type: "worktree.rescued", agent: name, data: { ref } }]);
  return ref;
}

/** Brings back what was saved, as a checkout beside the repository. */
export function bringBackCommand({ paths }: Project, ref: string): string {
  const which = ref.slice("refs/overseer/rescue/".length);
  const place = `${paths.root}-rescued-${which.replaceAll("/", "-")}`;
  return `git -C ${typed(paths.root)} worktree add -b rescued/${which} ${typed(place)} ${ref}`;
}
