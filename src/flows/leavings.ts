import { OverseerError } from "../domain/errors.ts";
import { exists } from "../effects/files.ts";
import { agentFiles } from "../effects/paths.ts";
import {
  commitOf,
  deleteBranch,
  isContained,
  isReachable,
  listWorktrees,
  removeWorktree,
  saveWork,
  uncommitted,
} from "../effects/worktrees.ts";
import type { Session } from "../store/contract.ts";
import { withLease } from "./lease.ts";
import { within } from "./manifest.ts";
import { type Project, tell } from "./project.ts";

/** What a worker has left in git: a worktree, a branch, or both. */
export interface Leavings {
  name: string;
  worktree: string;
  hasWorktree: boolean;
  branch: string | null;
  /** The tip of the branch and the head of the worktree, as far as there are any. */
  tips: string[];
  dirty: string[];
  /** Everything that was committed is in the canonical branch, or was there before the worker came. */
  isLanded: boolean;
}

export interface Known {
  name: string;
  branch: string | null;
  baseCommit: string | null;
}

export async function worktreePath(project: Project, name: string): Promise<string> {
  const { config } = await project.config();
  return `${within(project, config.worktrees.baseDir)}/${name}`;
}

/** The pure facts: nothing is changed. Null when there is nothing. */
export async function examineLeavings(project: Project, known: Known): Promise<Leavings | null> {
  const { git, paths } = project;
  const worktree = await worktreePath(project, known.name);
  const hasWorktree = exists(worktree);
  const branchTip =
    known.branch === null ? null : await commitOf(git, paths.root, `refs/heads/${known.branch}`);
  if (!hasWorktree && branchTip === null) return null;
  const recorded = (await listWorktrees(git, paths.root)).find(({ path }) => path === worktree);
  const tips = [branchTip, hasWorktree ? (recorded?.head ?? null) : null].filter((tip) => tip !== null);
  return {
    name: known.name,
    worktree,
    hasWorktree,
    branch: branchTip === null ? null : known.branch,
    tips: [...new Set(tips)],
    dirty:
      hasWorktree && recorded ? await uncommitted(git, worktree, agentFiles(paths, known.name).excludes) : [],
    isLanded: await areLanded(project, [...new Set(tips)], known),
  };
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
  return leavings.isLanded && leavings.dirty.length === 0;
}

export function refusal({ name, dirty }: Leavings, session: Session | null): OverseerError {
  const canGoOn = session !== null && session.state !== "completed" && session.worktree !== null;
  const goOn = canGoOn ? `; overseer resume ${name} goes on with it` : "";
  const hint = `overseer diff ${name} shows it${goOn}; overseer worktree clean ${name} --force saves it under a ref first`;
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

/** Removes worktree and branch; what has not landed is saved first, and only then. */
export async function discard(project: Project, leavings: Leavings): Promise<Removed> {
  return await withLease(project, "worktrees", async () => {
    const rescueRef = isSafe(leavings) ? null : await rescue(project, leavings);
    const { git, paths } = project;
    await removeWorktree(git, paths.root, leavings.worktree);
    const isElsewhere = (await listWorktrees(git, paths.root)).some(
      ({ branch }) => branch === leavings.branch,
    );
    const [tip] = leavings.tips;
    if (leavings.branch !== null && tip !== undefined && !isElsewhere) {
      await deleteBranch(git, paths.root, leavings.branch, tip);
    }
    return { rescueRef, branch: leavings.branch };
  });
}

async function rescue(project: Project, { name, worktree, hasWorktree, tips }: Leavings): Promise<string> {
  const { git, paths, clock } = project;
  const at = clock.now();
  const ref = `refs/overseer/rescue/${name}/${new Date(at).toISOString().replaceAll(/[:.]/g, "-")}`;
  const files = agentFiles(paths, name);
  if (hasWorktree) {
    const scratchIndex = `${files.folder}/rescue-index-${process.pid}`;
    await saveWork(git, { ref, worktree, tips, scratchIndex, excludes: files.excludes });
  } else {
    await git.ask(paths.root, ["update-ref", "-m", "overseer: rescue", ref, tips[0] ?? "HEAD"]);
  }
  await tell(project, [{ at, type: "worktree.rescued", agent: name, data: { ref } }]);
  return ref;
}

/** Brings back what was saved, as a checkout beside the repository. */
export function bringBackCommand({ paths }: Project, name: string, ref: string): string {
  const quoted = (text: string) => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const place = `${paths.root}-${name}-rescued`;
  return `git -C ${quoted(paths.root)} worktree add -b rescued/${ref.slice("refs/overseer/rescue/".length)} ${quoted(place)} ${ref}`;
}
