import { formatAge } from "../domain/duration.ts";
import { printable } from "../domain/mail.ts";
import { HUMAN, ORCHESTRATOR } from "../domain/names.ts";
import { isLive, type SessionState } from "../domain/session.ts";
import type { AgentStatus, Status } from "../flows/status.ts";
import { costText } from "./metrics-text.ts";
import type { Style } from "./output.ts";

const MOST_TITLE = 40;

/** A screen that a person understands at a glance. */
export function statusText(status: Status, caller: string, style: Style): string {
  const head = `${style.bold(status.project)}${style.dim(`: work lands on ${status.canonicalBranch}`)}`;
  return [head, "", agents(status, style), "", ...summary(status, caller, style)].join("\n");
}

function agents(status: Status, style: Style): string {
  if (status.agents.length === 0) return style.dim("No workers.");
  const byParent = Map.groupBy(status.agents, ({ session }) => session.parent);
  const known = new Set(status.agents.map(({ session }) => session.name));
  const roots = status.agents.filter(({ session }) => session.parent === null || !known.has(session.parent));
  const rows: Row[] = [];
  const add = (agent: AgentStatus, depth: number) => {
    rows.push(row(agent, depth, status.now));
    for (const child of byParent.get(agent.session.name) ?? []) add(child, depth + 1);
  };
  for (const agent of roots) add(agent, 0);
  return table(rows, style);
}

interface Row {
  state: SessionState;
  cells: string[];
  notes: string[];
}

function row(
  { session, title, unread, isLost, ahead, behind, usage, isPartlyCounted }: AgentStatus,
  depth: number,
  now: number,
): Row {
  const state = session.reason ? `${session.state}: ${session.reason}` : session.state;
  const age = formatAge(now - session.stateAt);
  const notes = [
    isLost ? `its process is gone: overseer resume ${session.name}` : "",
    session.reasonUntil === null ? "" : `until ${new Date(session.reasonUntil).toISOString()}`,
    session.toolName ? `${session.toolName} for ${formatAge(now - (session.toolStartedAt ?? now))}` : "",
    unread > 0 ? `${unread} unread` : "",
    ahead ? `${ahead} ahead` : "",
    behind ? `${behind} behind` : "",
    usage.cost > 0 ? `${isPartlyCounted ? "more than " : ""}${costText(usage)}` : "",
  ];
  return {
    state: isLost ? "zombie" : session.state,
    cells: [
      `${"  ".repeat(depth)}${session.name}`,
      session.capability,
      `${state} ${age}`,
      taskCell(session.taskId, title),
    ],
    notes: notes.filter((note) => note !== ""),
  };
}

/** What it is about says more than an id; cut, so that the line stays one. */
function taskCell(id: string | null, title: string | null): string {
  if (id === null) return "-";
  const words = printable(title ?? "").replaceAll(/\s+/g, " ");
  return words === ""
    ? id
    : `${id} ${words.length > MOST_TITLE ? `${words.slice(0, MOST_TITLE - 1)}…` : words}`;
}

function table(rows: readonly Row[], style: Style): string {
  const widths = [0, 1, 2, 3].map((column) =>
    Math.max(...rows.map(({ cells }) => (cells[column] ?? "").length)),
  );
  return rows
    .map(({ state, cells, notes }) => {
      const [name = "", capability = "", condition = "", task = ""] = cells.map((cell, at) =>
        cell.padEnd(widths[at] ?? 0),
      );
      const line = `${style.bold(name)}  ${capability}  ${stateColour(state, style)(condition)}  ${task}`;
      return notes.length > 0 ? `${line}  ${style.dim(notes.join(", "))}` : line.trimEnd();
    })
    .join("\n");
}

function stateColour(state: SessionState, style: Style): (text: string) => string {
  if (state === "working" || state === "completed") return style.green;
  if (state === "waiting" || state === "stalled") return style.yellow;
  if (state === "zombie" || state === "failed") return style.red;
  return isLive(state) ? style.cyan : style.dim;
}

function summary(status: Status, caller: string, style: Style): string[] {
  const { tasks, merge, goals, lastTickAt } = status.overview;
  const open = tasks.todo + tasks.queued + tasks.in_progress + tasks.blocked;
  const counts = `${tasks.queued} ready, ${tasks.in_progress} in progress, ${tasks.todo + tasks.blocked} waiting, ${tasks.done} done`;
  const pass = lastTickAt === null ? "" : `last pass ${formatAge(status.now - lastTickAt)} ago`;
  const lines: [string, string][] = [
    ["Tasks", open + tasks.done === 0 ? 'none yet: overseer task create "what is to be done"' : counts],
    ["Mail", mailLine(status, caller, style)],
    ["Claude", orchestratorLine(status)],
    ["Merge", mergeLine(merge, style)],
    ["Goals", goals.total === 0 ? "" : `${goals.active} active of ${goals.total}`],
    ["Watch", pass],
  ];
  return lines
    .filter(([, text]) => text !== "")
    .map(([name, text]) => `${style.dim(name.padEnd(6))} ${text}`);
}

function orchestratorLine({ orchestrators, now }: Status): string {
  return orchestrators
    .map(({ state, stateAt }) => `your session is ${state}, for ${formatAge(now - stateAt)}`)
    .join(", ");
}

function mailLine(status: Status, caller: string, style: Style): string {
  const own = status.unread.get(caller) ?? 0;
  const yours =
    own === 0 ? "nothing unread for you" : style.yellow(`${own} unread for you: overseer mail check`);
  const other = caller === HUMAN ? ORCHESTRATOR : HUMAN;
  const theirs = status.unread.get(other) ?? 0;
  return theirs === 0 ? yours : `${yours}; ${theirs} for ${other}: overseer mail list --to ${other} --unread`;
}

function mergeLine(counts: Readonly<Record<string, number>>, style: Style): string {
  const text = describeCounts(counts);
  return counts.held ? `${text}; ${style.yellow("why held: overseer events --type merge.held")}` : text;
}

function describeCounts(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, n]) => `${n} ${name}`)
    .join(", ");
}
