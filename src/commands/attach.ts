import type { Run } from "../cli/command.ts";
import { OverseerError } from "../domain/errors.ts";
import { typed as word } from "../domain/shell-word.ts";
import { attachCommand, attachPane } from "../flows/look.ts";
import { workerOf } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const { project, output } = context;
  const session = await workerOf(project, await context.caller(), typed.args[0] ?? "");
  const command = await attachCommand(project, session);
  if (output.isJson) return output.done({ name: session.name, command }, () => "");
  if (!output.isOnTerminal) {
    throw new OverseerError("usage", "this is not a terminal, so there is nowhere to show the pane", {
      hint: `in a terminal: ${command.map(word).join(" ")}; or overseer peek ${session.name}`,
    });
  }
  await attachPane(project, session);
};
