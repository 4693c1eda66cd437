import { printable } from "../domain/mail.ts";
import type { TaskStatus } from "../domain/task.ts";
import type { Task } from "../store/contract.ts";
import type { Style } from "./output.ts";

const WIDEST_STATUS = "in_progress".length;

export function taskLines(tasks: readonly Task[], style: Style): string {
  const widest = Math.max(...tasks.map((task) => task.id.length));
  return tasks.map((task) => taskLine(task, widest, style)).join("\n");
}

function taskLine(task: Task, widest: number, style: Style): string {
  const status = statusColour(task.status, style)(task.status.padEnd(WIDEST_STATUS));
  const priority = task.priority === "normal" ? "" : style.yellow(` [${task.priority}]`);
  const waits = task.waitsFor.length > 0 ? style.dim(` waits for ${task.waitsFor.join(", ")}`) : "";
  return `${style.bold(task.id.padEnd(widest))}  ${status}  ${printable(task.title)}${priority}${waits}`;
}

function statusColour(status: TaskStatus, style: Style): (text: string) => string {
  switch (status) {
    case "done":
      return style.green;
    case "blocked":
      return style.red;
    case "in_progress":
      return style.cyan;
    default:
      return style.dim;
  }
}
