import { OverseerError } from "../domain/errors.ts";
import type { Git } from "../effects/git.ts";

/** Where work lands unless the configuration says otherwise: origin's default branch, else the current one. */
export async function canonicalBranch(git: Git, root: string): Promise<string> {
  const origin = await git.run(root, ["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"]);
  if (origin.exitCode === 0) return origin.stdout.trim().replace(/^origin\//, "");
  const current = await git.run(root, ["symbolic-ref", "--quiet", "--short", "HEAD"]);
  if (current.exitCode === 0) return current.stdout.trim();
  throw new OverseerError("config_invalid", "HEAD is detached, so the canonical branch is not known", {
    hint: "check out a branch, or set project.canonicalBranch in .overseer/config.yaml",
  });
}
