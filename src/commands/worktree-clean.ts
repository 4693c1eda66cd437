import type { Run } from "../cli/command.ts";
import type { Style } from "../cli/output.ts";
import { OverseerError } from "../domain/errors.ts";
import { printable } from "../domain/mail.ts";
import { refuseWorkers } from "../flows/caller.ts";
import { type CleanResult, cleanWorktrees } from "../flows/clean.ts";

export const run: Run = async (context, typed) => {
  refuseWorkers(context.env, context.cwd);
  const [name] = typed.args;
  const isCompletedOnly = typed.has("completed");
  const chosen = [name !== undefined, isCompletedOnly, typed.has("all")].filter((is) => is).length;
  if (chosen !== 1) {
    throw new OverseerError("usage", "say which: a name, --completed or --all", {
      hint: "overseer worktree list",
    });
  }
  const result = await cleanWorktrees(context.project, {
    name,
    isCompletedOnly,
    isForced: typed.has("force"),
  });
  context.output.done(view(result), (style) => text(result, style));
  if (result.refused[0]) context.fail(result.refused[0].why);
};

function view({ removed, refused, live }: CleanResult) {
  return {
    removed,
    refused: refused.map(({ name, why }) => ({ name, code: why.code, message: why.message, hint: why.hint })),
    live,
  };
}

function text({ removed, refused, live }: CleanResult, style: Style): string {
  const gone = removed.flatMap(({ name, branch, bringBack }) => [
    `Removed ${style.bold(name)}${branch === null ? "" : ` (${branch})`}`,
    ...(bringBack === null ? [] : [`  its work is saved; bring it back with:\n  ${style.cyan(bringBack)}`]),
  ]);
  const kept = refused.map(({ name, why }) => {
    const next = why.hint === undefined ? "" : style.dim(`\n  next: ${why.hint}`);
    return `Kept ${style.bold(name)}: ${style.yellow(printable(why.message))}${next}`;
  });
  const cleaned = [...gone, ...kept].join("\n") || "There is nothing to clean.";
  if (live.length === 0) return cleaned;
  const next = `overseer stop ${live.length === 1 ? live[0] : "NAME"}`;
  return `${cleaned}\n${style.dim(`still alive, left alone: ${live.join(", ")} (${next})`)}`;
}
