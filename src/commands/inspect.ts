import type { Run } from "../cli/command.ts";
import { inspectionText, inspectionView } from "../cli/inspection.ts";
import { inspectWorker } from "../flows/look.ts";
import { currentWorker } from "../flows/stop.ts";

export const run: Run = async (context, typed) => {
  const session = await currentWorker(context.project, typed.args[0] ?? "");
  const inspection = await inspectWorker(context.project, session);
  context.output.done(inspectionView(inspection), (style) =>
    inspectionText(inspection, context.clock.now(), style),
  );
};
