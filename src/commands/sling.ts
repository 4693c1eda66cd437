import type { Run } from "../cli/command.ts";
import { toGivenList, toLevel } from "../cli/values.ts";
import { agentView } from "../cli/views.ts";
import { uncommittedHere } from "../flows/look.ts";
import { sling } from "../flows/spawn.ts";

export const run: Run = async (context, typed) => {
  const isWaiting = !typed.has("noWait");
  const caller = await context.caller();
  const session = await sling(context.project, caller, {
    what: typed.args[0] ?? "",
    name: typed.text("name") ?? "",
    capability: typed.text("capability") ?? "",
    spec: typed.text("spec"),
    files: toGivenList(typed.text("files"), "--files"),
    model: typed.text("model"),
    parent: typed.text("parent"),
    depth: toLevel(typed.text("depth")),
    base: typed.text("base"),
    isWaiting,
    notice: (line) => context.output.note(line),
  });
  if (caller.kind !== "worker" && !context.output.isJson) {
    const changed = await uncommittedHere(context.project);
    if (changed.length > 0) context.output.aside(notTaken(changed, session.name));
  }
  context.output.done({ agent: agentView(session, 0) }, (style) => {
    const doing = isWaiting ? "is at work on" : "was launched on";
    const next = style.dim(`overseer peek ${session.name}, overseer wait ${session.name}`);
    return `${style.bold(session.name)} ${style.green(doing)} ${session.taskId} (${session.branch})\n${next}`;
  });
};

function notTaken(changed: readonly string[], name: string): string {
  const what = changed.length === 1 ? changed[0] : `${changed[0]} and ${changed.length - 1} more`;
  return `you have uncommitted changes (${what}); ${name} begins at the last commit, without them`;
}
