import { readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { TempFolder } from "./temp.ts";

/** Puts the stand-in into a folder as `bd`, or a shell script in its place, and returns the PATH that finds it. */
export function withBd(folder: TempFolder, path: string, script?: string): string {
  const standIn = join(import.meta.dir, "stand-in-bd.ts");
  const real = `exec '${process.execPath}' --no-env-file '${standIn}' "$@"`;
  folder.write("bd", `#!/bin/sh\nreal_bd() { ${real.replace(/^exec /, "")}; }\n${script ?? real}\n`, 0o755);
  return `${folder.path}${delimiter}${path}`;
}

/** What the stand-in's database says of an issue. */
export function issueAt(root: string, id: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(root, ".beads", `${id}.json`), "utf8"));
}
