import type { Run } from "../cli/command.ts";
import { refuseWorkers } from "../flows/caller.ts";
import { initProject } from "../flows/init.ts";

export const run: Run = async (context) => {
  refuseWorkers(context.env, context.cwd);
  const result = await initProject(context.git, context.cwd, (paths) => context.openAt(paths));
  context.output.done(result, (style) => {
    if (result.changed.length === 0) return `overseer is set up in ${result.root} already; nothing changed.`;
    const changed = result.changed.map((file) => `  ${file}`).join("\n");
    const next = "Next: start Claude Code here and tell it what you want, or overseer status.";
    return `${style.green("overseer is set up")} in ${result.root}; work lands on ${result.canonicalBranch}. Written:\n${changed}\n${next}`;
  });
};
