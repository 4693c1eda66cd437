import { expertiseText, primeArguments } from "../domain/expertise.ts";
import { inherited } from "../domain/pane-environment.ts";
import { askMulch } from "../effects/expertise.ts";
import { isRealFolder } from "../effects/files.ts";
import { logError } from "../effects/logs.ts";
import type { Project } from "./project.ts";

/** Something that the caller should know and that stops nothing. */
export type Notice = (line: string) => void;

/**
 * What `mulch prime` says of this project, for a worker's instructions; empty where there is none. The main checkout's
 * comes first: a worker could write into its own what mulch then runs as a hook.
 */
export async function expertiseFor(
  project: Project,
  worktree: string | null,
  notice: Notice,
): Promise<string> {
  const { mulch } = (await project.config()).config;
  const places = [project.paths.root, ...(worktree === null ? [] : [worktree])];
  const cwd = places.find((place) => isRealFolder(`${place}/.mulch`));
  if (!mulch.enabled || cwd === undefined) return "";
  const args = primeArguments(mulch.domains, mulch.primeFormat);
  const primed = await askMulch({ cwd, env: inherited(project.env), args });
  if (primed.kind === "text") return expertiseText(primed.text);
  if (primed.kind === "failed") {
    logError(project.paths, project.clock.now(), "reading mulch's expertise", primed.why);
    notice(`it starts without mulch's expertise: ${primed.why.split("\n")[0]}`);
  }
  return "";
}
