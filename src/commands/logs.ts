import type { Run } from "../cli/command.ts";
import { toCount } from "../cli/values.ts";
import { printable } from "../domain/mail.ts";
import { followLog, readLog } from "../flows/look.ts";
import { currentWorker } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const session = await currentWorker(context.project, typed.args[0] ?? "");
  const last = toCount(typed.text("lines"), 200, "--lines");
  if (typed.has("follow")) {
    for await (const line of followLog(() => context.reopen(), session.name, last)) {
      context.output.line({ line }, () => printable(line));
    }
  }
  const lines = readLog(context.project, session).slice(-last);
  context.output.done({ name: session.name, lines }, () =>
    lines.length > 0 ? printable(lines.join("\n")) : `${session.name} has done nothing yet.`,
  );
};
