import type { Paths } from "./paths.ts";
import { readText } from "./raw-files.ts";

/** The few settings a hook needs, compiled from config.yaml by the flows: a hook never reads YAML. */
export interface Compiled {
  isRedacting: boolean;
}

export function readCompiled(paths: Paths): Compiled {
  // Missing or damaged, the cautious setting serves: only the exact word switches redaction off.
  return { isRedacting: !(readText(paths.compiled) ?? "").includes('"isRedacting":false') };
}

export function renderCompiled(compiled: Compiled): string {
  return `${JSON.stringify(compiled)}\n`;
}
