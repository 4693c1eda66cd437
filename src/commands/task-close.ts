import type { Run } from "../cli/command.ts";
import { taskView } from "../cli/views.ts";
import { closeTask } from "../flows/tasks.ts";

export const run: Run = async (context, typed) => {
  const closed = await closeTask(
    context.project,
    await context.caller(),
    typed.args[0] ?? "",
    typed.text("reason") ?? "",
  );
  context.output.done({ task: taskView(closed.task), queued: closed.queued }, (style) => {
    const ready = closed.queued.length > 0 ? `; now ready: ${closed.queued.join(", ")}` : "";
    return `${style.bold(closed.task.id)} is ${style.green("done")}${ready}`;
  });
};
