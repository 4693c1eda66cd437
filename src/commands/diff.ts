import type { Run } from "../cli/command.ts";
import { printable } from "../domain/mail.ts";
import { readDiff } from "../flows/look.ts";
import { currentWorker } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const session = await currentWorker(context.project, typed.args[0] ?? "");
  const { base, files, text } = await readDiff(context.project, session, typed.has("stat"));
  context.output.done({ name: session.name, branch: session.branch, base, files, diff: text }, () =>
    text === "" ? `${session.name} has changed nothing yet.` : printable(text),
  );
};
