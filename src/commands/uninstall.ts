import type { Run } from "../cli/command.ts";
import { refuseWorkers } from "../flows/caller.ts";
import { uninstallProject } from "../flows/uninstall.ts";

export const run: Run = async (context) => {
  refuseWorkers(context.env, context.cwd);
  const result = await uninstallProject(context.remains, () => context.close());
  context.output.done(result, () => {
    const restored = result.restored.length > 0 ? ` ${result.restored.join(" and ")} as before.` : "";
    const kept =
      result.kept.length > 0 ? `\nKept, because you wrote or changed it: ${result.kept.join(", ")}` : "";
    return `overseer is gone from this repository.${restored}${kept}`;
  });
};
