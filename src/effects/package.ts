import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { OverseerError } from "../domain/errors.ts";
import type { HookProgram } from "../domain/hook-settings.ts";

const PACKAGE = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** A file that comes with overseer itself. */
export function packageFile(...parts: string[]): string {
  return join(PACKAGE, ...parts);
}

/** The Bun that runs this very process, our configuration for it, and the bundled hooks. */
export function hookProgram(): HookProgram {
  const entries = packageFile("dist");
  if (!existsSync(join(entries, "hook.js"))) {
    throw new OverseerError("bundle_missing", `${entries} has no hooks in it`, {
      hint: `npm install in ${PACKAGE}`,
    });
  }
  return { bun: process.execPath, config: packageFile("templates", "bunfig.toml"), entries };
}
