import type { Run } from "../cli/command.ts";
import { statusText } from "../cli/status-text.ts";
import { agentView, iso } from "../cli/views.ts";
import { readStatus, type Status } from "../flows/status.ts";

export const run: Run = async (context) => {
  const caller = await context.caller();
  const status = await readStatus(context.project);
  context.output.done(view(status, caller.name), (style) => statusText(status, caller.name, style));
};

function view(status: Status, caller: string) {
  const { tasks, merge, goals, lastTickAt } = status.overview;
  return {
    project: { name: status.project, canonicalBranch: status.canonicalBranch },
    agents: status.agents.map(({ session, unread }) => agentView(session, unread)),
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
