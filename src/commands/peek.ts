import type { Run } from "../cli/command.ts";
import { toCount } from "../cli/values.ts";
import { printable } from "../domain/mail.ts";
import { readPane } from "../flows/look.ts";
import { currentWorker } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const session = await currentWorker(context.project, typed.args[0] ?? "");
  const lines = typed.text("lines");
  const before = lines === undefined ? 0 : toCount(lines, 0, "--lines");
  const text = await readPane(context.project, session, before);
  // Most of a screen is empty, and nobody wants to scroll past that.
  context.output.done({ name: session.name, text }, () =>
    printable(text).replaceAll(/\n(?:[ \t]*\n){2,}/g, "\n\n"),
  );
};
