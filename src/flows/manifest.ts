import { OverseerError } from "../domain/errors.ts";
import { type Definition, definitionFor, type Manifest, readManifest } from "../domain/manifest.ts";
import { quote } from "../domain/names.ts";
import { exists, readBytes } from "../effects/files.ts";
import { packageFile } from "../effects/package.ts";
import type { Project } from "./project.ts";

/** The roles of this project. Whatever is wrong with the manifest or the files it names is said in one go. */
export async function loadManifest(project: Project): Promise<Manifest> {
  const { config } = await project.config();
  const { manifestPath } = config.agents;
  const reading = readManifest(parse(manifestPath, readBytes(within(project, manifestPath))));
  if (reading.kind === "invalid") throw invalid(manifestPath, reading.problems);
  const files = Object.entries(reading.manifest.agents).map(([name, { file }]) => ({ name, file }));
  const folder = await definitionsFolder(project);
  const missing = files.filter(({ file }) => !exists(`${folder}/${file}`));
  if (missing.length === 0) return reading.manifest;
  throw invalid(
    manifestPath,
    missing.map(({ name, file }) => `agents.${name}.file: there is no ${file} in ${folder}`),
  );
}

export function chooseDefinition(manifest: Manifest, capability: string): Definition {
  const definition = definitionFor(manifest, capability);
  if (definition) return definition;
  throw new OverseerError("capability_unknown", `there is no capability ${quote(capability)}`, {
    hint: `--capability takes ${Object.keys(manifest.capabilityIndex).join(", ")}`,
  });
}

/** How a role works: the text that is added to Claude's system prompt. */
export async function definitionText(project: Project, definition: Definition): Promise<string> {
  const file = `${await definitionsFolder(project)}/${definition.file}`;
  return readBytes(file)?.toString("utf8") ?? "";
}

async function definitionsFolder(project: Project): Promise<string> {
  const { config } = await project.config();
  return config.agents.baseDir === null ? packageFile("agents") : within(project, config.agents.baseDir);
}

/** A path of the configuration: relative to the root, or absolute. */
export function within({ paths }: Project, path: string): string {
  return path.startsWith("/") ? path : `${paths.root}/${path}`;
}

function parse(path: string, bytes: Buffer | null): unknown {
  if (bytes === null) throw invalid(path, ["it is missing; overseer init writes it anew"]);
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    if (error instanceof SyntaxError) throw invalid(path, [error.message]);
    throw error;
  }
}

function invalid(path: string, problems: readonly string[]): OverseerError {
  return new OverseerError("manifest_invalid", problems.map((problem) => `${path}: ${problem}`).join("\n"), {
    hint: `correct ${path}`,
  });
}
