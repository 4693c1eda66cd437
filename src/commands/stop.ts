import type { Run } from "../cli/command.ts";
import { assertOneOrAll } from "../cli/values.ts";
import { liveBelow, stopWorker, workerOf } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const { project } = context;
  const caller = await context.caller();
  const [name] = typed.args;
  assertOneOrAll(name, typed.has("all"), "overseer stop NAME, or overseer stop --all");
  const sessions =
    name === undefined ? await liveBelow(project, caller) : [await workerOf(project, caller, name)];
  for (const session of sessions) await stopWorker(project, caller, session);
  const names = sessions.map((session) => session.name);
  const left = (await liveBelow(project, caller)).filter(({ parent }) => names.includes(parent ?? ""));
  const orphans = left.map((session) => session.name);
  context.output.done({ stopped: names, stillWorking: orphans }, (style) => {
    if (names.length === 0) return "Nobody is working.";
    const others = orphans.length > 0 ? `\nThose that worked for it go on: ${orphans.join(", ")}` : "";
    const rest = names.length === 1 ? `overseer resume ${names[0]}` : "overseer resume --all";
    return `Stopped ${style.bold(names.join(", "))}; worktrees and branches stay.${others}\n${style.dim(`go on: ${rest}`)}`;
  });
};
