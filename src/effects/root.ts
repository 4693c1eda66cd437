import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Paths } from "./paths.ts";

/**
 * The root of the main checkout around a folder, read from git's own files: a worktree's `.git` is a file that leads to
 * the repository it belongs to. Null outside of any repository.
 */
export function findRoot(folder: string): string | null {
  for (let at = folder; ; at = dirname(at)) {
    const dotGit = join(at, ".git");
    if (existsSync(dotGit)) return statSync(dotGit).isDirectory() ? at : mainCheckout(at, dotGit);
    if (at === dirname(at)) return null;
  }
}

function mainCheckout(folder: string, dotGit: string): string {
  const gitDir = resolve(
    folder,
    readFileSync(dotGit, "utf8")
      .replace(/^gitdir:\s*/, "")
      .trimEnd(),
  );
  const commonDir = join(gitDir, "commondir");
  // Without it, it is a submodule, which is a repository of its own.
  if (!existsSync(commonDir)) return folder;
  return dirname(resolve(gitDir, readFileSync(commonDir, "utf8").trimEnd()));
}

export function isInstalled(paths: Paths): boolean {
  return existsSync(paths.config);
}
