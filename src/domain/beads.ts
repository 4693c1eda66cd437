import { isOpen, type Priority, type TaskFacts, type TaskStatus } from "./task.ts";

/** An issue of beads, in overseer's own terms. */
export type Issue = TaskFacts;

const BY_PRIORITY: Readonly<Record<Priority, number>> = { urgent: 0, high: 1, normal: 2, low: 3 };
const BY_NUMBER: readonly Priority[] = ["urgent", "high", "normal", "low", "low"];

export function toBeadsPriority(priority: Priority): number {
  return BY_PRIORITY[priority];
}

/** What `bd create --metadata` keeps of a task that beads has no field for. */
export function toMetadata(files: readonly string[]): string {
  return JSON.stringify({ overseer: { files } });
}

type Raw = Readonly<Record<string, unknown>>;

/** The issues in an answer of `bd --json`: a list, one alone, or either in the envelope of newer versions. Null if neither. */
export function readIssues(answer: unknown): Issue[] | null {
  const list = unwrap(answer);
  if (!Array.isArray(list) || !list.every(isIssue)) return null;
  const openIds = new Set(list.filter(({ status }) => status !== "closed").map(({ id }) => id));
  return list.map((raw) => toIssue(raw, openIds));
}

/** What `bd close --suggest-next` answers: the issues alone, or beside those that became ready. */
export function readClosed(answer: unknown): { closed: Issue[]; unblocked: string[] } | null {
  const inner = isRecord(answer) && isRecord(answer.data) ? answer.data : answer;
  const isPair = isRecord(inner) && Array.isArray(inner.closed);
  const closed = readIssues(isPair ? inner.closed : inner);
  const unblocked = isPair ? readIssues(inner.unblocked ?? []) : [];
  return closed && unblocked && { closed, unblocked: unblocked.map(({ id }) => id) };
}

/** What `bd` says went wrong; null when that is no error of its own. */
export function readFailure(answer: unknown): string | null {
  const inner = isRecord(answer) && isRecord(answer.data) ? answer.data : answer;
  return isRecord(inner) && typeof inner.error === "string" ? inner.error : null;
}

export function meansUnknown(words: string): boolean {
  return /not found|no issues? found/i.test(words);
}

/** Open ones first, the most urgent first within, then the oldest. */
export function byUrgency(one: Issue, other: Issue): number {
  return (
    Number(!isOpen(one.status)) - Number(!isOpen(other.status)) ||
    BY_PRIORITY[one.priority] - BY_PRIORITY[other.priority] ||
    one.createdAt - other.createdAt ||
    one.id.localeCompare(other.id)
  );
}

function unwrap(answer: unknown): unknown {
  if (!isRecord(answer)) return answer;
  if (typeof answer.id === "string") return [answer];
  const inner = answer.data ?? answer.items;
  return isRecord(inner) ? [inner] : inner;
}

function isIssue(raw: unknown): raw is Raw & { id: string; title: string } {
  return isRecord(raw) && typeof raw.id === "string" && typeof raw.title === "string";
}

function toIssue(raw: Raw & { id: string; title: string }, openIds: ReadonlySet<unknown>): Issue {
  const needs = dependenciesOf(raw);
  const waitsFor = needs.filter(({ id, status }) =>
    status === null ? openIds.has(id) : status !== "closed",
  );
  const createdAt = timeOf(raw.created_at) ?? 0;
  return {
    id: raw.id,
    title: raw.title,
    body: bodyOf(raw),
    status: statusOf(raw.status, waitsFor.length > 0),
    priority: BY_NUMBER[Number(raw.priority)] ?? "normal",
    files: filesOf(raw.metadata),
    tags: textsOf(raw.labels),
    dependsOn: needs.map(({ id }) => id),
    waitsFor: waitsFor.map(({ id }) => id),
    reason: text(raw.close_reason),
    createdAt,
    updatedAt: timeOf(raw.updated_at) ?? createdAt,
    endedAt: timeOf(raw.closed_at),
  };
}

function statusOf(status: unknown, isWaiting: boolean): TaskStatus {
  if (status === "closed") return "done";
  if (status === "in_progress" || status === "hooked") return "in_progress";
  if (status === "open") return isWaiting ? "todo" : "queued";
  // blocked, deferred, pinned, or a status of the project's own: nothing to begin with now.
  return "blocked";
}

/** Only these keep an issue from being ready. */
const BLOCKING: readonly unknown[] = ["blocks", "conditional-blocks", "waits-for"];

/** `list` gives bare records, `show` the issues themselves. */
function dependenciesOf(raw: Raw): { id: string; status: string | null }[] {
  const list: unknown[] = Array.isArray(raw.dependencies) ? raw.dependencies : [];
  return list.filter(isRecord).flatMap((dependency) => {
    const id = text(dependency.depends_on_id) ?? text(dependency.id);
    const isBlocking = BLOCKING.includes(dependency.dependency_type ?? dependency.type);
    return id !== null && isBlocking ? [{ id, status: text(dependency.status) }] : [];
  });
}

function bodyOf(raw: Raw): string {
  const parts = [
    text(raw.description),
    titled("Design", text(raw.design)),
    titled("Acceptance criteria", text(raw.acceptance_criteria)),
    titled("Notes", text(raw.notes)),
  ];
  return parts.filter((part) => part !== null).join("\n\n");
}

function titled(title: string, words: string | null): string | null {
  return words === null ? null : `${title}:\n${words}`;
}

function filesOf(metadata: unknown): string[] {
  const ours = isRecord(metadata) && isRecord(metadata.overseer) ? metadata.overseer.files : [];
  return textsOf(ours);
}

function timeOf(value: unknown): number | null {
  const at = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function isRecord(value: unknown): value is Raw {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
