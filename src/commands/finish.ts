import type { Run } from "../cli/command.ts";
import { announceIfClosed } from "../flows/announce.ts";
import { assertOwnName } from "../flows/caller.ts";
import { finishCompletion } from "../flows/complete.ts";
import { currentWorker } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const [name = ""] = typed.args;
  assertOwnName(await context.caller(), name, "the name");
  const session = await currentWorker(context.project, name);
  const isDue = !typed.has("ifClosed") || (await announceIfClosed(context.project, session));
  const isFinished = isDue && (await finishCompletion(context.project, session));
  context.output.done({ name, finished: isFinished }, () =>
    isFinished ? `${name} has finished.` : `There is nothing to finish for ${name}.`,
  );
};
