import type { Run } from "../cli/command.ts";
import { metricsText, metricsView } from "../cli/metrics-text.ts";
import { toCount } from "../cli/values.ts";
import { readMetrics } from "../flows/metrics.ts";

export const run: Run = async (context, typed) => {
  const metrics = await readMetrics(context.project, toCount(typed.text("last"), 20, "--last"));
  context.output.done(metricsView(metrics), (style) => metricsText(metrics, style));
};
