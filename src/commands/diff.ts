import type { Run } from "../cli/command.ts";
import { printable } from "../domain/mail.ts";
import { readDiff, worktreeGone } from "../flows/look.ts";
import { currentWorker } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const session = await currentWorker(context.project, typed.args[0] ?? "");
  const { name, branch } = session;
  const { text, ...rest } = await readDiff(context.project, session, typed.has("stat"));
  const gone = worktreeGone(session, rest.hasWorktree);
  if (gone !== null) context.output.note(`${name} as its branch has it; ${gone}`);
  context.output.done({ name, branch, ...rest, diff: text }, () =>
    text === "" ? `${name} has changed nothing yet.` : printable(text),
  );
};
