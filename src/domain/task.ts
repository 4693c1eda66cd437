import type { Moves } from "./machine.ts";

export const TASK_KINDS = ["goal", "phase", "task", "subtask"] as const;
export type TaskKind = (typeof TASK_KINDS)[number];

export const TASK_STATUSES = ["todo", "queued", "in_progress", "blocked", "done", "cancelled"] as const;
export type TaskStatus = (typeof TASK_STATUSES)[number];

export const PRIORITIES = ["low", "normal", "high", "urgent"] as const;
export type Priority = (typeof PRIORITIES)[number];

/** A person or the orchestrator may declare any open task done; the event keeps who and why. */
export const TASK_MOVES: Moves<TaskStatus> = {
  todo: ["queued", "done", "cancelled"],
  queued: ["in_progress", "blocked", "done", "cancelled"],
  in_progress: ["queued", "blocked", "done", "cancelled"],
  blocked: ["queued", "done", "cancelled"],
  done: [],
  cancelled: [],
};

export function isOpen(status: TaskStatus): boolean {
  return status !== "done" && status !== "cancelled";
}
