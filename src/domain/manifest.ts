import { z } from "zod";

/** `.overseer/agent-manifest.json`: what roles there are, what each may use, and which definition tells it how to work. */
const DEFINITION = z.strictObject({
  file: z.string().regex(/^[^/\0]+\.md$/, "is not the name of a Markdown file"),
  model: z.string().min(1).nullable().default(null),
  tools: z.array(z.string().min(1)),
  capabilities: z.array(z.string().regex(/^[a-z][a-z0-9-]{0,39}$/, "is not a capability")).min(1),
  canSpawn: z.boolean().default(false),
  constraints: z.array(z.string()).default([]),
  doctrine: z.unknown().optional(),
});
const MANIFEST = z.strictObject({
  version: z.string(),
  agents: z.record(z.string(), DEFINITION),
  capabilityIndex: z.record(z.string(), z.array(z.string())),
});

export type Definition = z.infer<typeof DEFINITION>;
export type Manifest = z.infer<typeof MANIFEST>;

export type ManifestReading = { kind: "valid"; manifest: Manifest } | { kind: "invalid"; problems: string[] };

export function readManifest(raw: unknown): ManifestReading {
  const parsed = MANIFEST.safeParse(raw);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "it"}: ${message}`);
    return { kind: "invalid", problems };
  }
  const problems = contradictions(parsed.data);
  return problems.length > 0 ? { kind: "invalid", problems } : { kind: "valid", manifest: parsed.data };
}

function contradictions(manifest: Manifest): string[] {
  // Maps: an object also answers to `constructor`.
  const agents = new Map(Object.entries(manifest.agents));
  const index = new Map(Object.entries(manifest.capabilityIndex));
  const unknown = [...index].flatMap(([capability, names]) =>
    names
      .filter((name) => !agents.get(name)?.capabilities.includes(capability))
      .map((name) => `capabilityIndex.${capability}: ${name} has no such capability`),
  );
  const missing = [...agents].flatMap(([name, { capabilities }]) =>
    capabilities
      .filter((capability) => !index.get(capability)?.includes(name))
      .map((capability) => `capabilityIndex.${capability}: ${name} is missing`),
  );
  return [...unknown, ...missing];
}

/** The definition that serves a capability: the first one that the index names. */
export function definitionFor(manifest: Manifest, capability: string): Definition | null {
  const [name] = Object.hasOwn(manifest.capabilityIndex, capability)
    ? (manifest.capabilityIndex[capability] ?? [])
    : [];
  return name === undefined ? null : (manifest.agents[name] ?? null);
}

export function isReadOnly(definition: Definition): boolean {
  return definition.constraints.includes("read-only");
}
