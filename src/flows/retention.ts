import { filesBelow, modifiedAt, move, readBytes, remove, sizeOf } from "../effects/files.ts";
import { appendLine } from "../effects/logs.ts";
import type { Paths } from "../effects/paths.ts";
import type { Project } from "./project.ts";

/** Turns what is older than `before` into milestones; says what it took, in words. */
export async function compact(project: Project, before: number): Promise<string[]> {
  const now = project.clock.now();
  const { removed } = await project.ledger.compactEvents(before, now);
  const folders = compactLogs(project.paths, before, now);
  const lines = await compactJournal(project, before);
  const taken: [number, string][] = [
    [removed, "events"],
    [folders, "session logs"],
    [lines, "lines of the journal"],
  ];
  return taken.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
}

/** The logs of a session that ended long ago become one line in its agent's milestones. */
function compactLogs(paths: Paths, before: number, now: number): number {
  const at = (file: string) => modifiedAt(`${paths.logs}/${file}`);
  const isOfSession = (file: string) => file.split("/").length === 3;
  const folders = Map.groupBy(filesBelow(paths.logs).filter(isOfSession), (file) =>
    file.slice(0, file.lastIndexOf("/")),
  );
  const old = [...folders].filter(([, files]) => files.every((file) => at(file) < before));
  for (const [folder, files] of old) {
    const [agent = "", session = ""] = folder.split("/");
    const bytes = files.reduce((sum, file) => sum + sizeOf(`${paths.logs}/${file}`), 0);
    const last = new Date(Math.max(...files.map(at))).toISOString();
    const milestone = { at: new Date(now).toISOString(), session, last, bytes };
    appendLine(`${paths.logs}/${agent}/milestones.ndjson`, JSON.stringify(milestone));
    remove(`${paths.logs}/${folder}`);
  }
  return old.length;
}

/**
 * Old lines go, but for those that open tasks and unread messages would be restored from. The journal is moved aside
 * and read again at the end, for what another process was just about to append; `restore` reads both names.
 */
async function compactJournal(project: Project, before: number): Promise<number> {
  const { journal } = project.paths;
  const aside = `${journal}.old`;
  bringBack(aside, journal, 0);
  const lines = linesOf(journal);
  const needed = await neededIds(project);
  const kept = lines.filter((line) => isKept(line, before, needed));
  if (kept.length === lines.length) return 0;
  move(journal, aside);
  for (const line of kept) appendLine(journal, line);
  bringBack(aside, journal, lines.length);
  return lines.length - kept.length;
}

/** What stands in the file that was moved aside beyond its first lines, and nowhere else yet; then it is not needed. */
function bringBack(aside: string, journal: string, from: number): void {
  const known = new Set(linesOf(journal));
  for (const line of linesOf(aside).slice(from)) if (!known.has(line)) appendLine(journal, line);
  remove(aside);
}

function linesOf(file: string): string[] {
  const text = readBytes(file)?.toString("utf8") ?? "";
  return text.split("\n").filter((line) => line !== "");
}

async function neededIds(project: Project): Promise<string[]> {
  const tasks = await project.ledger.listTasks({ isOpen: true });
  const unread = await project.mail.listMessages({ isUnread: true, limit: -1 });
  return [...tasks, ...unread].map(({ id }) => JSON.stringify(id));
}

function isKept(line: string, before: number, needed: readonly string[]): boolean {
  const at = Date.parse(/"at":"([^"]+)"/.exec(line)?.[1] ?? "");
  return !(at < before) || needed.some((id) => line.includes(id));
}
