import type { Run } from "../cli/command.ts";
import type { Style } from "../cli/output.ts";
import { OverseerError } from "../domain/errors.ts";
import { refuseWorkers } from "../flows/caller.ts";
import { examine, type Finding, type Verdict } from "../flows/doctor.ts";

export const run: Run = async (context, typed) => {
  if (typed.has("fix")) refuseWorkers(context.env, context.cwd);
  const findings = await examine(() => context.reopen(), typed.has("fix"));
  const broken = findings.filter(({ verdict }) => verdict === "broken");
  context.output.done({ healthy: broken.length === 0, findings }, (style) =>
    findings.map((finding) => line(finding, style)).join("\n"),
  );
  if (broken.length > 0) context.fail(new OverseerError("unhealthy", `${broken.length} broken`));
};

function line({ check, verdict, detail, hint }: Finding, style: Style): string {
  const next = hint && verdict !== "ok" ? style.dim(`\n                   next: ${hint}`) : "";
  return `${mark(verdict, style)} ${style.bold(check.padEnd(9))}  ${detail}${next}`;
}

function mark(verdict: Verdict, style: Style): string {
  switch (verdict) {
    case "ok":
      return style.green("ok     ");
    case "fixed":
      return style.cyan("fixed  ");
    case "warning":
      return style.yellow("warning");
    case "broken":
      return style.red("broken ");
  }
}
