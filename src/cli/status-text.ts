import { formatAge } from "../domain/duration.ts";
import { printable } from "../domain/mail.ts";
import { HUMAN, ORCHESTRATOR } from "../domain/names.ts";
import { helpFor, needOf, renewWorktree } from "../domain/need.ts";
import { isLive, type SessionState } from "../domain/session.ts";
import type { AgentStatus, Status } from "../flows/status.ts";
import { costText } from "./metrics-text.ts";
import type { Style } from "./output.ts";

const MOST_TITLE = 40;
const MOST_NAMES = 30;
const GAP = "  ";

/** A screen that a person understands at a glance, each worker in one line of so many columns. */
export function statusText(
  status: Status,
  caller: string,
  style: Style,
  columns = Number.POSITIVE_INFINITY,
): string {
  const head = `${style.bold(status.project)}${style.dim(`: work lands on ${status.canonicalBranch}`)}`;
  const next = nextSteps(status.agents).map((line) => style.dim(line));
  return [head, "", agents(status, style, columns), ...next, "", ...summary(status, caller, style)].join(
    "\n",
  );
}

function agents(status: Status, style: Style, columns: number): string {
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
  return table(rows, style, columns);
}

interface Row {
  state: SessionState;
  /** Name, capability and state: always whole. */
  cells: string[];
  task: string;
  about: string;
  /** What matters most first. */
  notes: string[];
}

function row(agent: AgentStatus, depth: number, now: number): Row {
  const { session, unread, isLost, ahead, behind, usage, isPartlyCounted } = agent;
  const state = session.reason ? `${session.state}: ${session.reason}` : session.state;
  const notes = [
    isLost ? "process gone" : "",
    worktreeNote(agent),
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
      `${state} ${formatAge(now - session.stateAt)}`,
    ],
    task: session.taskId ?? "-",
    about: session.taskId === null ? "" : aboutTask(agent),
    notes: notes.filter((note) => note !== ""),
  };
}

/** A spawn that failed is undone, so there is nothing that could have been cleaned. */
function worktreeNote({ session, hasWorktree }: AgentStatus): string {
  const { worktree, branch, state } = session;
  if (worktree !== null) return hasWorktree ? "" : "worktree gone";
  return branch !== null && !isLive(state) && state !== "failed" ? "cleaned" : "";
}

/** What it is about says more than an id; of a task that is not its own any more, what became of it. */
function aboutTask({ session, title, taskStatus }: AgentStatus): string {
  if (taskStatus === "cancelled") return "(cancelled)";
  const hasEnded = !isLive(session.state) && session.state !== "completed";
  if (hasEnded && session.worktree === null) return "(given back)";
  return cut(printable(title ?? "").replaceAll(/\s+/g, " "), MOST_TITLE);
}

function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  return most > 1 ? `${text.slice(0, most - 1)}…` : "";
}

function table(rows: readonly Row[], style: Style, columns: number): string {
  const widths = [0, 1, 2].map((column) =>
    Math.max(...rows.map(({ cells }) => (cells[column] ?? "").length)),
  );
  const before = widths.reduce((sum, width) => sum + width + GAP.length, 0);
  const widest = Math.max(...rows.map(({ task, about }) => `${task} ${about}`.trimEnd().length));
  return rows
    .map(({ state, cells, task, about, notes }) => {
      const [name = "", capability = "", condition = ""] = cells.map((cell, at) =>
        cell.padEnd(widths[at] ?? 0),
      );
      const told = fitting(notes, columns - before - task.length - GAP.length);
      const room = columns - before - (told === "" ? 0 : told.length + GAP.length);
      const work = `${task} ${cut(about, room - task.length - 1)}`.trimEnd();
      const start = [style.bold(name), capability, stateColour(state, style)(condition)].join(GAP);
      if (told === "") return `${start}${GAP}${work}`;
      return `${start}${GAP}${work.padEnd(Math.min(widest, room))}${GAP}${style.dim(told)}`;
    })
    .join("\n");
}

/** As many notes as there is room for: inspect has them all. */
function fitting(notes: readonly string[], room: number): string {
  const all = notes.join(", ");
  if (all.length <= room) return all;
  const fewer = notes.findLastIndex((_, at) => `${notes.slice(0, at).join(", ")}, …`.length <= room);
  return fewer > 0 ? `${notes.slice(0, fewer).join(", ")}, …` : "";
}

/** What to type next, a line for each kind of trouble, however many have it. */
function nextSteps(all: readonly AgentStatus[]): string[] {
  const isUp = ({ session, isLost }: AgentStatus) => isLive(session.state) && !isLost;
  const isBack = ({ session }: AgentStatus) => session.state !== "completed" && session.worktree !== null;
  const step = (
    agents: readonly AgentStatus[],
    one: string,
    several: string,
    help: (who: string) => string,
  ) => {
    const names = agents.map(({ session }) => session.name);
    if (names.length === 0) return [];
    return [
      `${few(names)} ${names.length === 1 ? one : several}: ${help(names.length === 1 ? (names[0] ?? "") : "NAME")}`,
    ];
  };
  const asking = all.filter((agent) => isUp(agent) && needOf(agent.session, false) === "answer");
  const homeless = all.filter(
    (agent) => isUp(agent) && agent.session.worktree !== null && !agent.hasWorktree,
  );
  const ended = all.filter((agent) => !isUp(agent) && isBack(agent));
  const failed = all.filter(({ session }) => session.state === "failed" && session.worktree === null);
  return [
    ...step(asking, "waits for you", "wait for you", (who) => helpFor("answer", [who])),
    ...step(homeless, "has lost its worktree", "have lost their worktrees", renewWorktree),
    ...step(
      ended,
      "can go on",
      "can go on",
      (who) => `overseer resume ${who}${who === "NAME" ? " or --all" : ""}`,
    ),
    ...step(failed, "failed", "failed", (who) => `overseer logs ${who}`),
  ];
}

/** By name where that is short; otherwise the rows tell who. */
function few(names: readonly string[]): string {
  const all = names.join(", ");
  return names.length > 1 && all.length > MOST_NAMES ? `${names.length} workers` : all;
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
