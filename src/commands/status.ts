import type { Run } from "../cli/command.ts";
import { statusText } from "../cli/status-text.ts";
import { agentView, iso, statusView } from "../cli/views.ts";
import { readStatus, type Status } from "../flows/status.ts";

const EVERY_MS = 1_000;

export const run: Run = async (context, typed) => {
  const caller = await context.caller();
  const { output } = context;
  const show = (status: Status, print: typeof output.done) =>
    print.call(output, view(status, caller.name), (style) =>
      statusText(status, caller.name, style, output.columns),
    );
  if (!typed.has("watch")) return show(await readStatus(context.project), output.done);
  const memory = new Map();
  for (;;) {
    const status = await readStatus(context.reopen(), memory);
    output.clear();
    show(status, output.line);
    await Bun.sleep(EVERY_MS);
  }
};

function view(status: Status, caller: string) {
  const { tasks, merge, goals, lastTickAt } = status.overview;
  return {
    project: { name: status.project, canonicalBranch: status.canonicalBranch },
    agents: status.agents.map(statusView),
    orchestrator: status.orchestrators.map((session) =>
      agentView(session, status.unread.get(session.name) ?? 0),
    ),
    tasks,
    mail: { unread: status.unread.get(caller) ?? 0, byAgent: Object.fromEntries(status.unread) },
    merge: { pending: 0, ...merge },
    goals,
    watch: { lastTickAt: iso(lastTickAt), degraded: false },
    auto: null,
    supervise: null,
  };
}
