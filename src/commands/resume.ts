import type { Run } from "../cli/command.ts";
import type { Context } from "../cli/context.ts";
import { agentView } from "../cli/views.ts";
import { OverseerError } from "../domain/errors.ts";
import { repairWorkers } from "../flows/repair.ts";
import { resumable, resumeWorker } from "../flows/resume.ts";
import { workerOf } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const { project } = context;
  const caller = await context.caller();
  const [name] = typed.args;
  const isWaiting = !typed.has("noWait");
  if (name !== undefined && typed.has("all"))
    throw new OverseerError("usage", "a name and --all contradict each other");
  await repairWorkers(project, ["half-made", "never started", "half-stopped"]);
  if (name !== undefined)
    return show(context, [await resumeOne(context, await workerOf(project, caller, name), isWaiting)], []);
  const sessions = await resumable(project, caller);
  const resumed: Resumed[] = [];
  const failed: OverseerError[] = [];
  for (const session of sessions) {
    try {
      resumed.push(await resumeOne(context, session, isWaiting));
    } catch (error) {
      if (!(error instanceof OverseerError)) throw error;
      failed.push(error);
    }
  }
  show(context, resumed, failed);
};

interface Resumed {
  name: string;
  /** Null for one that had finished and only had to be told so. */
  session: Awaited<ReturnType<typeof resumeWorker>>;
}

type Worker = Awaited<ReturnType<typeof workerOf>>;

async function resumeOne(
  { project, output }: Context,
  session: Worker,
  isWaiting: boolean,
): Promise<Resumed> {
  const notice = (line: string) => output.note(`${session.name}: ${line}`);
  return { name: session.name, session: await resumeWorker(project, session, isWaiting, notice) };
}

function show(context: Context, resumed: readonly Resumed[], failed: readonly OverseerError[]): void {
  const agents = resumed.flatMap(({ session }) => (session ? [agentView(session, 0)] : []));
  const finished = resumed.filter(({ session }) => session === null).map(({ name }) => name);
  const failures = failed.map(({ code, message }) => ({ code, message }));
  context.output.done({ agents, finished, failed: failures }, (style) => {
    const lines = [
      ...agents.map(({ name, taskId }) => `${style.bold(name)} ${style.green("goes on with")} ${taskId}`),
      ...finished.map((name) => `${style.bold(name)} had finished; its result is in the queue`),
      ...failed.map((error) => style.red(error.message)),
    ];
    return lines.length > 0 ? lines.join("\n") : "Nobody has to be resumed.";
  });
  if (failed[0]) context.fail(failed[0]);
}
