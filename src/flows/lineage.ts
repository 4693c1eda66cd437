import { OverseerError } from "../domain/errors.ts";
import { type Definition, definitionFor, isReadOnly, type Manifest } from "../domain/manifest.ts";
import { HUMAN, ORCHESTRATOR, quote } from "../domain/names.ts";
import { isWithin, toScope } from "../domain/scope.ts";
import { isLive } from "../domain/session.ts";
import type { Session } from "../store/contract.ts";
import { assertOwnName } from "./caller.ts";
import { unknownAgent } from "./prime.ts";
import type { Caller, Project } from "./project.ts";

export interface Lineage {
  /** Who gave the work, and gets the result. */
  parent: string;
  depth: number;
  fileScope: string[];
}

export interface LineageRequest {
  parent: string | undefined;
  depth: number | undefined;
  files: readonly string[];
}

/** Where a new worker stands: below whoever calls, or below whom the person names, and within that one's files. */
export async function lineageOf(
  project: Project,
  caller: Caller,
  manifest: Manifest,
  definition: Definition,
  request: LineageRequest,
): Promise<Lineage> {
  assertOwnName(caller, request.parent, "--parent");
  const above = caller.kind === "worker" ? caller.session : await namedParent(project, request.parent);
  const depth = above === null ? 0 : above.depth + 1;
  if (request.depth !== undefined && request.depth !== depth) {
    throw new OverseerError("usage", `--depth ${request.depth} does not fit: it would be ${depth}`, {
      hint: "leave --depth out",
    });
  }
  if (above) assertMaySpawn(manifest, above, caller.kind === "worker");
  await assertDepth(project, depth);
  const fileScope = [...new Set(request.files.map(toScope))];
  if (above) assertInside(above, fileScope, isReadOnly(definition));
  return { parent: above?.name ?? (caller.kind === HUMAN ? HUMAN : ORCHESTRATOR), depth, fileScope };
}

async function namedParent(project: Project, name: string | undefined): Promise<Session | null> {
  if (name === undefined || name === ORCHESTRATOR || name === HUMAN) return null;
  const session = await project.ledger.currentSession(name);
  if (!session) throw await unknownAgent(project, name);
  if (isLive(session.state)) return session;
  throw new OverseerError("usage", `${quote(name)} is ${session.state} and cannot look after anybody`, {
    hint: "leave --parent out, or overseer resume it first",
  });
}

function assertMaySpawn(manifest: Manifest, above: Session, isOwn: boolean): void {
  if (definitionFor(manifest, above.capability)?.canSpawn === true) return;
  throw new OverseerError(
    "may_not_spawn",
    `${above.name} is a ${above.capability}, which may not sling others`,
    {
      hint: isOwn
        ? `overseer mail send --to ${above.parent ?? ORCHESTRATOR} --type question --subject "..." --body "..."`
        : "name a lead, or leave --parent out",
    },
  );
}

async function assertDepth(project: Project, depth: number): Promise<void> {
  const { config } = await project.config();
  if (depth < config.agents.maxDepth) return;
  throw new OverseerError(
    "too_deep",
    `that would be level ${depth + 1} of at most ${config.agents.maxDepth}`,
    {
      hint: "do it yourself, ask your parent, or raise agents.maxDepth in .overseer/config.yaml",
    },
  );
}

function assertInside(above: Session, fileScope: readonly string[], isReader: boolean): void {
  if (above.fileScope.length === 0) return;
  const own = above.fileScope.join(",");
  const outside = fileScope.find((scope) => !above.fileScope.some((around) => isWithin(scope, around)));
  if (outside !== undefined) {
    throw new OverseerError("scope_outside", `${outside} is not within the files of ${above.name} (${own})`, {
      hint: "give --files within those",
    });
  }
  if (fileScope.length > 0 || isReader) return;
  throw new OverseerError(
    "scope_outside",
    `${above.name} has files of its own (${own}), so its workers need some too`,
    {
      hint: "give --files within those",
    },
  );
}
