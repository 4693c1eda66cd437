import type { Run } from "../cli/command.ts";
import { taskView } from "../cli/views.ts";
import { closeTask } from "../flows/tasks.ts";

export const run: Run = async (context, typed) => {
  const caller = await context.caller();
  const closed = await closeTask(context.project, caller, typed.args[0] ?? "", typed.text("reason") ?? "");
  const isAnnounced = caller.kind === "worker";
  context.output.done({ task: taskView(closed.task), queued: closed.queued, isAnnounced }, (style) => {
    if (isAnnounced)
      return `Noted. End your turn now: then ${closed.task.id} is reported and this session closed.`;
    const ready = closed.queued.length > 0 ? `; now ready: ${closed.queued.join(", ")}` : "";
    return `${style.bold(closed.task.id)} is ${style.green("done")}${ready}`;
  });
};
