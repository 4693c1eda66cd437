import type { Run } from "../cli/command.ts";
import { refreshCompiled } from "../flows/init.ts";

export const run: Run = async (context) => {
  const { entries } = await context.project.config();
  await refreshCompiled(context.project);
  const own = entries.filter(({ source }) => source === "file").length;
  context.output.done(
    { valid: true, set: own },
    (style) => `${style.green("valid")}: .overseer/config.yaml sets ${own} of ${entries.length} keys`,
  );
};
