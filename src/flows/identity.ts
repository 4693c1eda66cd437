import { parse, stringify, YAMLParseError } from "yaml";
import { isObject } from "../domain/hook-settings.ts";
import { type FinishedTask, grow, historySection, type Identity } from "../domain/identity.ts";
import { readBytes, writeAtomically } from "../effects/files.ts";
import { agentFiles } from "../effects/paths.ts";
import type { Session } from "../store/contract.ts";
import type { Project } from "./project.ts";

/** What the name has done so far; null for one that has finished nothing yet, or whose file was spoilt by hand. */
export function readIdentity(project: Project, name: string): Identity | null {
  const bytes = readBytes(agentFiles(project.paths, name).identity);
  if (bytes === null) return null;
  try {
    const value: unknown = parse(bytes.toString("utf8"));
    return isObject(value) && Array.isArray(value.recentTasks) ? (value as unknown as Identity) : null;
  } catch (error) {
    if (error instanceof YAMLParseError) return null;
    throw error;
  }
}

/** Carried out twice for the same session, it has happened once. */
export function growIdentity(project: Project, session: Session, task: FinishedTask): void {
  const files = agentFiles(project.paths, session.name);
  const before = readIdentity(project, session.name) ?? {
    name: session.name,
    capability: session.capability,
    createdAt: new Date(session.startedAt).toISOString(),
    sessionsCompleted: 0,
    recentTasks: [],
  };
  const after = grow({ ...before, capability: session.capability }, task);
  if (after.sessionsCompleted === before.sessionsCompleted) return;
  // The history first: the identity is what says that both are done.
  const history = readBytes(files.history)?.toString("utf8") ?? `# What ${session.name} has done\n`;
  if (!history.includes(historySection(task))) writeAtomically(files.history, history + historySection(task));
  writeAtomically(files.identity, stringify(after));
}
