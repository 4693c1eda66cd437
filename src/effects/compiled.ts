import type { Paths } from "./paths.ts";
import { readText } from "./raw-files.ts";

/** The few settings a hook needs, compiled from config.yaml by the flows: a hook never reads YAML. */
export interface Compiled {
  isRedacting: boolean;
  /** Whether a waiter may wake a session. */
  isWaking: boolean;
}

export function readCompiled(paths: Paths): Compiled {
  const text = readText(paths.compiled) ?? "";
  // Missing or damaged, the cautious setting serves: only the exact word switches something off.
  return { isRedacting: !text.includes('"isRedacting":false'), isWaking: !text.includes('"isWaking":false') };
}

export function renderCompiled(compiled: Compiled): string {
  return `${JSON.stringify(compiled)}\n`;
}
