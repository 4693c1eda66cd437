import type { Run } from "../cli/command.ts";
import { assertOneOrAll } from "../cli/values.ts";
import { repairWorkers } from "../flows/repair.ts";
import { liveBelow, type Stopped, stoppable, stopWorker, workerOf } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const { project } = context;
  const caller = await context.caller();
  const [name] = typed.args;
  assertOneOrAll(name, typed.has("all"), "overseer stop NAME, or overseer stop --all");
  await repairWorkers(project, name === undefined ? ["half-made", "half-stopped"] : ["half-made"]);
  const sessions =
    name === undefined ? await stoppable(project, caller) : [await workerOf(project, caller, name)];
  const stopped: Stopped[] = [];
  for (const session of sessions) stopped.push(await stopWorker(project, caller, session));
  const names = stopped.map((one) => one.name);
  const left = (await liveBelow(project, caller)).filter(({ parent }) => names.includes(parent ?? ""));
  const orphans = left.map((session) => session.name);
  context.output.done({ stopped: names, stillWorking: orphans }, (style) => {
    if (names.length === 0) return "Nobody is working.";
    const kept = stopped.filter(({ worktree }) => worktree === "kept").map((one) => one.name);
    const rest = kept.length === 1 ? `overseer resume ${kept[0]}` : "overseer resume --all";
    const lines = [
      ...(kept.length > 0 ? [`Stopped ${style.bold(kept.join(", "))}; worktrees and branches stay.`] : []),
      ...stopped.filter(({ worktree }) => worktree !== "kept").map((one) => beforeItBegan(one, style.bold)),
      ...(orphans.length > 0 ? [`Those that worked for it go on: ${orphans.join(", ")}`] : []),
      ...(kept.length > 0 ? [style.dim(`go on: ${rest}`)] : []),
    ];
    return lines.join("\n");
  });
};

function beforeItBegan({ name, worktree }: Stopped, bold: (text: string) => string): string {
  const undone = worktree === "taken back" ? "was taken back" : "is being taken back";
  return `Stopped ${bold(name)} before it had begun; what was made for it ${undone}.`;
}
