import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { Paths } from "./paths.ts";

/**
 * The root of the main checkout around a folder, read from git's own files: a worktree's `.git` is a file that leads to
 * the repository it belongs to. Null outside of any repository, and in a worktree of one that has no main checkout.
 */
export function findRoot(folder: string): string | null {
  for (let at = folder; ; at = dirname(at)) {
    const dotGit = join(at, ".git");
    if (existsSync(dotGit)) return statSync(dotGit).isDirectory() ? at : mainCheckout(at, dotGit);
    if (at === dirname(at)) return null;
  }
}

function mainCheckout(folder: string, dotGit: string): string | null {
  const gitDir = resolve(
    folder,
    readFileSync(dotGit, "utf8")
      .replace(/^gitdir:\s*/, "")
      .trimEnd(),
  );
  const commonDir = join(gitDir, "commondir");
  // Without it, it is a submodule, which is a repository of its own.
  if (!existsSync(commonDir)) return folder;
  const common = resolve(gitDir, readFileSync(commonDir, "utf8").trimEnd());
  if (basename(common) === ".git") return dirname(common);
  // A submodule's repository lies inside of its superproject's and names its checkout; a bare one has none.
  const config = readFileSync(join(common, "config"), "utf8");
  const checkout = /^\s*worktree\s*=\s*(.+)$/m.exec(config)?.[1];
  return checkout === undefined ? null : resolve(common, checkout.trimEnd());
}

/** The hooks are in: a configuration alone may come with a clone, or be what uninstall left to the user. */
export function isInstalled(paths: Paths): boolean {
  return existsSync(paths.installed);
}
