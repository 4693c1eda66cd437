import type { Run } from "../cli/command.ts";
import type { Style } from "../cli/output.ts";
import { iso, taskView } from "../cli/views.ts";
import { printable } from "../domain/mail.ts";
import { workerOn } from "../flows/look.ts";
import { showTask, type Task } from "../flows/tasks.ts";

export const run: Run = async (context, typed) => {
  const task = await showTask(context.project, typed.args[0] ?? "");
  const worker = await workerOn(context.project, task.id);
  const who = worker && { name: worker.name, state: worker.state };
  context.output.done({ task: taskView(task), worker: who }, (style) => describe(task, who, style));
};

function describe(task: Task, worker: { name: string; state: string } | null, style: Style): string {
  const facts: [string, string][] = [
    ["status", task.reason ? `${task.status}: ${printable(task.reason)}` : task.status],
    ["worker", worker ? `${worker.name} (${worker.state})` : ""],
    ["priority", task.priority],
    ["files", printable(task.files.join(", "))],
    ["tags", printable(task.tags.join(", "))],
    ["depends on", task.dependsOn.join(", ")],
    ["waits for", task.waitsFor.join(", ")],
    ["created", iso(task.createdAt) ?? ""],
    ["closed", iso(task.endedAt) ?? ""],
  ];
  const lines = facts
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${style.dim(name.padEnd(10))}  ${value}`);
  const body = task.body.trim() === "" ? "" : `\n\n${printable(task.body).trimEnd()}`;
  return `${style.bold(task.id)}  ${printable(task.title)}\n${lines.join("\n")}${body}`;
}
