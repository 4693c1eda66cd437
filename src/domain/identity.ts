/** What an agent's name has done so far, over all its sessions: `agents/<name>/identity.yaml`. */
export interface Identity {
  name: string;
  capability: string;
  createdAt: string;
  sessionsCompleted: number;
  /** The latest, newest last. */
  recentTasks: FinishedTask[];
}

export interface FinishedTask {
  sessionId: string;
  taskId: string;
  title: string;
  summary: string;
  completedAt: string;
  branch: string | null;
  files: string[];
}

const KEPT_TASKS = 20;
const KEPT_FILES = 20;
const SHOWN_TASKS = 5;

/** A session counts once, however often its completion is carried out. */
export function grow(identity: Identity, task: FinishedTask): Identity {
  if (identity.recentTasks.some(({ sessionId }) => sessionId === task.sessionId)) return identity;
  const latest = { ...task, files: task.files.slice(0, KEPT_FILES) };
  return {
    ...identity,
    sessionsCompleted: identity.sessionsCompleted + 1,
    recentTasks: [...identity.recentTasks, latest].slice(-KEPT_TASKS),
  };
}

export function historyLines({ recentTasks }: Identity): string {
  return recentTasks
    .slice(-SHOWN_TASKS)
    .map(({ taskId, title, summary }) => `- ${taskId}: ${title}. ${summary}`.trimEnd())
    .join("\n");
}

/** What `work-history.md` gains with a finished session. */
export function historySection(task: FinishedTask): string {
  const files = task.files.map((file) => `- ${file}`).join("\n");
  const branch = task.branch === null ? "" : `\nBranch: ${task.branch}\n`;
  return `\n## ${task.completedAt} ${task.taskId}: ${task.title}\n\n${task.summary}\n${branch}${files === "" ? "" : `\n${files}\n`}`;
}
