import type { Moves } from "./machine.ts";

export const TASK_KINDS = ["goal", "phase", "task", "subtask"] as const;
export type TaskKind = (typeof TASK_KINDS)[number];

export const TASK_STATUSES = ["todo", "queued", "in_progress", "blocked", "done", "cancelled"] as const;
export type TaskStatus = (typeof TASK_STATUSES)[number];

export const PRIORITIES = ["low", "normal", "high", "urgent"] as const;
export type Priority = (typeof PRIORITIES)[number];

/** What is known of a task, whoever keeps it. */
export interface TaskFacts {
  id: string;
  title: string;
  body: string;
  status: TaskStatus;
  priority: Priority;
  files: string[];
  tags: string[];
  dependsOn: string[];
  /** Those of them that are not done yet. */
  waitsFor: string[];
  reason: string | null;
  createdAt: number;
  updatedAt: number;
  endedAt: number | null;
}

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
