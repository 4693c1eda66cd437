import type { Run } from "../cli/command.ts";
import { completionScript } from "../cli/completions.ts";
import { namesToOffer } from "../flows/look.ts";

export const run: Run = async (context, typed) => {
  const [shell = ""] = typed.args;
  if (shell === "agents") {
    const agents = await namesToOffer(context.project);
    return context.output.done({ agents }, () => agents.join("\n"));
  }
  const script = completionScript(shell);
  context.output.done({ script }, () => script);
};
