import { formatAge } from "../domain/duration.ts";
import { printable } from "../domain/mail.ts";
import type { Usage } from "../domain/usage.ts";
import type { Metrics, SessionMetrics, Sum } from "../flows/metrics.ts";
import type { Style } from "./output.ts";
import { iso, usageView } from "./views.ts";

export function metricsView({ sessions, agents, tasks, total, unread }: Metrics) {
  return {
    sessions: sessions.map(sessionView),
    agents: [...agents].map(([name, sum]) => ({ name, ...sumView(sum) })),
    tasks: [...tasks].map(([id, sum]) => ({ id, ...sumView(sum) })),
    total: sumView(total),
    unread: unread.map(({ session, path, why }) => ({
      name: session.name,
      sessionId: session.id,
      path,
      why,
    })),
  };
}

function sessionView({ session, durationMs, tier, usage }: SessionMetrics) {
  const { id, name, capability, taskId, state, reason, startedAt, endedAt } = session;
  return {
    ...{ id, name, capability, taskId, state, reason },
    startedAt: iso(startedAt),
    endedAt: iso(endedAt),
    durationMs,
    mergeTier: tier,
    ...usageView(usage),
  };
}

function sumView({ sessions, durationMs, usage }: Sum) {
  return { sessions, durationMs, ...usageView(usage) };
}

const HEAD = ["agent", "task", "outcome", "time", "in", "out", "cached", "cost", "merged"];
/** Numbers stand under each other at their ends. */
const NUMBERS = new Set(["time", "in", "out", "cached", "cost"]);

/** A line for each session, then what they come to. */
export function metricsText(metrics: Metrics, style: Style): string {
  const { sessions, total, unread } = metrics;
  if (sessions.length === 0) return "No sessions yet: overseer sling starts a worker.";
  const count = sessions.length === 1 ? "1 session" : `${sessions.length} sessions`;
  const rows = [HEAD, ...sessions.map(row), ["total", "", count, ...numbers(total), ""]];
  const widths = HEAD.map((_, column) => Math.max(...rows.map((cells) => (cells[column] ?? "").length)));
  const lines = rows.map((cells) =>
    cells
      .map((cell, at) =>
        NUMBERS.has(HEAD[at] ?? "") ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0),
      )
      .join("  ")
      .trimEnd(),
  );
  const [head = "", ...body] = lines;
  const notes = [
    ...(total.usage.priced < total.usage.answers ? [unpricedNote(total.usage)] : []),
    ...unread.map(({ session, path, why }) => `not counted of ${session.name}: ${path}: ${why}`),
  ];
  return [style.dim(head), ...body, ...notes.map((note) => style.yellow(printable(note)))].join("\n");
}

function row({ session, tier, ...sum }: SessionMetrics): string[] {
  const { name, taskId, state, reason } = session;
  const outcome = reason === null ? state : `${state}: ${reason}`;
  return [name, taskId ?? "-", outcome, ...numbers(sum), tier ?? "-"];
}

function numbers({ durationMs, usage }: { durationMs: number; usage: Usage }): string[] {
  const { input, output, cacheRead, cacheWrite5m, cacheWrite1h } = usage.tokens;
  const counts = [input + cacheWrite5m + cacheWrite1h, output, cacheRead];
  const shown = counts.map((count) => (usage.answers === 0 ? "-" : shortCount(count)));
  return [formatAge(durationMs), ...shown, costText(usage)];
}

function unpricedNote({ unpriced, priced, cost }: Usage): string {
  const least = priced === 0 ? "" : `at least ${dollars(cost)} in all: `;
  return `${least}there is no price for what was answered by ${unpriced.join(", ")}`;
}

/** "-" for nothing, "?" where no price is known, and a plus where one is known for a part of it. */
export function costText({ answers, priced, cost }: Usage): string {
  if (priced === 0) return answers === 0 ? "-" : "?";
  return `${dollars(cost)}${priced < answers ? "+" : ""}`;
}

function dollars(usd: number): string {
  return usd > 0 && usd < 0.01 ? "<$0.01" : `$${usd.toFixed(2)}`;
}

const STEPS = [
  ["B", 1_000_000_000],
  ["M", 1_000_000],
  ["k", 1_000],
] as const;

/** "950", "1.2k", "34k", "1.2M". */
function shortCount(count: number): string {
  // What would be rounded to 1000k is 1M.
  const step = STEPS.find(([, size]) => count >= size * 0.9995);
  if (step === undefined || count < 1_000) return String(count);
  const value = count / step[1];
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)}${step[0]}`;
}
