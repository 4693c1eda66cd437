import type { Run } from "../cli/command.ts";
import type { Style } from "../cli/output.ts";
import { listLeavings, type WorktreeLine } from "../flows/clean.ts";
import { isSafe } from "../flows/leavings.ts";

export const run: Run = async (context) => {
  const lines = await listLeavings(context.project);
  const worktrees = lines.map(
    ({ name, worktree, hasWorktree, branch, dirty, isLanded, obstacle, state, taskId }) => ({
      name,
      state,
      taskId,
      worktree: hasWorktree ? worktree : null,
      branch,
      uncommitted: dirty,
      isLanded,
      obstacle: obstacle?.message ?? null,
    }),
  );
  context.output.done({ worktrees }, (style) =>
    lines.length > 0 ? table(lines, style) : "There are no worktrees.",
  );
};

function table(lines: readonly WorktreeLine[], style: Style): string {
  const widest = (column: (line: WorktreeLine) => string) =>
    Math.max(...lines.map((line) => column(line).length));
  const widths = { name: widest(({ name }) => name), branch: widest(({ branch }) => branch ?? "-") };
  return lines.map((line) => text(line, widths, style)).join("\n");
}

function text(line: WorktreeLine, widths: { name: number; branch: number }, style: Style): string {
  const { name, state, branch, dirty, isLanded, hasWorktree, obstacle } = line;
  const notes = [
    hasWorktree ? "" : "branch only",
    dirty.length > 0 ? style.yellow(`${dirty.length} uncommitted`) : "",
    obstacle === null ? "" : style.red(obstacle.message),
    isLanded ? "" : style.yellow("not landed"),
    isSafe(line) ? "nothing to lose" : "",
  ];
  const what = notes.filter((note) => note !== "").join(", ");
  const where = (branch ?? "-").padEnd(widths.branch);
  return `${style.bold(name.padEnd(widths.name))}  ${(state ?? "nobody's").padEnd(9)}  ${where}  ${what}`;
}
