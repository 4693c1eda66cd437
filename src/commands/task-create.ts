import type { Run } from "../cli/command.ts";
import { toBody, toGivenList, toPriority } from "../cli/values.ts";
import { taskView } from "../cli/views.ts";
import { printable } from "../domain/mail.ts";
import { createTask } from "../flows/tasks.ts";

export const run: Run = async (context, typed) => {
  const task = await createTask(context.project, await context.caller(), {
    title: typed.args[0] ?? "",
    body: await toBody(typed.text("body"), context),
    priority: toPriority(typed.text("priority")) ?? "normal",
    files: toGivenList(typed.text("files"), "--files"),
    tags: typed.list("tag"),
    dependsOn: toGivenList(typed.text("depends"), "--depends"),
  });
  context.output.done({ task: taskView(task) }, (style) => {
    const waits = task.waitsFor.length > 0 ? `waits for ${task.waitsFor.join(", ")}` : "ready";
    return `${style.bold(task.id)} ${printable(task.title)} (${waits})`;
  });
};
