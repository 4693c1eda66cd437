import type { Run } from "../cli/command.ts";
import { toDuration } from "../cli/values.ts";
import { agentView } from "../cli/views.ts";
import { AWAITED, waitForWorkers } from "../flows/wait.ts";

export const run: Run = async (context, typed) => {
  const awaited = AWAITED.find((state) => state === typed.text("for")) ?? "completed";
  const sessions = await waitForWorkers(() => context.reopen(), {
    names: typed.args,
    isAny: typed.has("any"),
    for: awaited,
    timeoutMs: toDuration(typed.text("timeout") ?? "10m", "--timeout"),
    notice: (line) => {
      if (context.output.isErrorOnTerminal) context.output.aside(line);
    },
  });
  context.output.done({ agents: sessions.map((session) => agentView(session, 0)) }, (style) =>
    sessions.map(({ name, state, cause }) => `${style.bold(name)} is ${state} (${cause})`).join("\n"),
  );
};
