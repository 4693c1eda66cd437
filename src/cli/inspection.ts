import { formatAge } from "../domain/duration.ts";
import { printable } from "../domain/mail.ts";
import { type Inspection, worktreeGone } from "../flows/look.ts";
import type { Style } from "./output.ts";
import { agentView, eventView, iso, taskView } from "./views.ts";

export function inspectionView(found: Inspection) {
  const { session, task, mergeEntries, spawn, events, unread, ...rest } = found;
  const { fileScope, baseCommit, model, paneId, tmuxSession, claudeSessionId, transcriptPath, endedAt } =
    session;
  const { toolName, toolStartedAt, stateAt, reasonUntil, logFolder } = session;
  return {
    agent: {
      ...agentView(session, unread),
      ...{
        fileScope,
        baseCommit,
        model,
        paneId,
        tmuxSession,
        claudeSessionId,
        transcriptPath,
        toolName,
        logFolder,
      },
      stateAt: iso(stateAt),
      reasonUntil: iso(reasonUntil),
      endedAt: iso(endedAt),
      toolStartedAt: iso(toolStartedAt),
    },
    task: task && taskView(task),
    mergeEntries: mergeEntries.map((entry) => ({ ...entry, enqueuedAt: iso(entry.enqueuedAt) })),
    spawn: spawn && { state: spawn.state, step: spawn.payload.step, outcome: spawn.outcome },
    events: events.map(eventView),
    ...rest,
  };
}

export function inspectionText(found: Inspection, now: number, style: Style): string {
  const { session, task } = found;
  const state = session.reason ? `${session.state}: ${session.reason}` : session.state;
  const lines: [string, string][] = [
    ["state", `${state} for ${formatAge(now - session.stateAt)} (${session.cause})`],
    ["task", task ? `${task.id} ${task.status}: ${task.title}` : "none"],
    ["parent", `${session.parent ?? "orchestrator"}, level ${session.depth}`],
    ["workers", found.children.join(", ")],
    ["process", processLine(found)],
    [
      "tool",
      session.toolName ? `${session.toolName} for ${formatAge(now - (session.toolStartedAt ?? now))}` : "",
    ],
    ["branch", branchLine(found)],
    ["files", session.fileScope.join(", ")],
    [
      "changes",
      found.uncommitted.length === 0 ? "" : `uncommitted: ${found.uncommitted.slice(0, 8).join(", ")}`,
    ],
    ["merge", found.mergeEntries.map(mergeText).join(", ")],
    ["mail", found.unread === 0 ? "" : `${found.unread} unread`],
    ["model", session.model ?? ""],
    ["claude", session.claudeSessionId ?? ""],
    ["past", `incarnation ${found.incarnations}, ${found.sessionsCompleted} completed under this name`],
    ["started", iso(session.startedAt) ?? ""],
    ["seen", `${formatAge(now - session.lastActivityAt)} ago`],
    ["worktree", worktreeLine(found)],
    ["files of", found.files.join("\n          ")],
  ];
  const known = lines.filter(([, text]) => text !== "");
  const body = known.map(([name, text]) => `${style.dim(name.padEnd(9))} ${printable(text)}`).join("\n");
  const events = found.events.map((event) => `  ${formatAge(now - event.at)} ago ${event.type}`).join("\n");
  return `${style.bold(session.name)}, a ${session.capability}\n${body}\n${style.dim("last")}\n${events}`;
}

function mergeText({ id, status, error }: Inspection["mergeEntries"][number]): string {
  return error === null ? `${id} ${status}` : `${id} ${status}: ${error}`;
}

function worktreeLine({ session, hasWorktree }: Inspection): string {
  const gone = worktreeGone(session, hasWorktree);
  return gone === null ? (session.worktree ?? "removed") : `${session.worktree} (${gone})`;
}

function processLine({ session, isRunning, hasPane }: Inspection): string {
  const pid = session.pid === null ? "none" : `${session.pid} ${isRunning ? "runs" : "is gone"}`;
  return `${pid}${hasPane ? `, pane ${session.paneId} of tmux session ${session.tmuxSession}` : ", no pane"}`;
}

function branchLine({ session, ahead, behind }: Inspection): string {
  if (session.branch === null) return "none";
  return ahead === null ? `${session.branch} (gone)` : `${session.branch}, ${ahead} ahead, ${behind} behind`;
}
