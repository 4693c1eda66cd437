import type { Run } from "../cli/command.ts";
import { taskLines } from "../cli/task-text.ts";
import { taskView } from "../cli/views.ts";
import { listTasks } from "../flows/tasks.ts";

export const run: Run = async (context) => {
  const tasks = await listTasks(context.project, { status: "queued" });
  context.output.done({ tasks: tasks.map(taskView) }, (style) =>
    tasks.length > 0 ? taskLines(tasks, style) : "Nothing is ready. overseer task list shows what is open.",
  );
};
