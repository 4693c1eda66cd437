import type { Run } from "../cli/command.ts";
import { taskLines } from "../cli/task-text.ts";
import { toCount } from "../cli/values.ts";
import { taskView } from "../cli/views.ts";
import { TASK_STATUSES } from "../domain/task.ts";
import { listTasks } from "../flows/tasks.ts";

export const run: Run = async (context, typed) => {
  const status = TASK_STATUSES.find((known) => known === typed.text("status"));
  const limit = toCount(typed.text("limit"), 100, "--limit");
  const isOpen = status === undefined && !typed.has("all");
  const tasks = await listTasks(context.project, { ...(status ? { status } : {}), isOpen, limit });
  context.output.done({ tasks: tasks.map(taskView) }, (style) =>
    tasks.length > 0
      ? taskLines(tasks, style)
      : 'No tasks match. Create one: overseer task create "what is to be done"',
  );
};
