import type { Run } from "../cli/command.ts";
import { completionScript } from "../cli/completions.ts";

export const run: Run = async (context, typed) => {
  const script = completionScript(typed.args[0] ?? "");
  context.output.done({ script }, () => script);
};
