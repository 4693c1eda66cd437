import { OverseerError } from "../domain/errors.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { isLive } from "../domain/session.ts";
import { exists, filesBelow, listFolder, readBytes, remove, removeIfEmpty } from "../effects/files.ts";
import type { Paths } from "../effects/paths.ts";
import { type Tmux, tmuxAt, tmuxSocket } from "../effects/tmux.ts";
import { dismissWaiters } from "../effects/waiters.ts";
import { canonicalBranch } from "./canonical-branch.ts";
import { homeFiles } from "./init.ts";
import { clearLeftovers, isAsWritten, planRemoval, removeFrom } from "./installation.ts";
import type { Project } from "./project.ts";

export interface UninstallResult {
  restored: string[];
  /** What the user wrote or changed below `.overseer/` is theirs and stays. */
  kept: string[];
}

/** Takes out exactly what init put in. `close` lets go of the databases before they are removed. */
export async function uninstallProject(project: Project, close: () => void): Promise<UninstallResult> {
  const { paths } = project;
  await refuseWithWorkers(project);
  const removal = planRemoval(paths);
  const kept = await changedFiles(project);
  const specs = filesBelow(paths.specs).map((file) => `${paths.specs}/${file}`);
  await (await anyTmux(project)).end();
  dismissWaiters(paths);
  close();
  await clearLeftovers(paths);
  removeFrom(paths, removal);
  const names = listFolder(paths.home).map((name) => `${paths.home}/${name}`);
  const others = filesBelow(paths.home).map((file) => `${paths.home}/${file}`);
  const keep = new Set([...kept, ...specs, ...others.filter((file) => !isOurs(paths, file))]);
  for (const path of names) {
    if (![...keep].some((file) => file === path || file.startsWith(`${path}/`))) remove(path);
  }
  removeIfEmpty(paths.home);
  const relative = (file: string) => file.slice(paths.root.length + 1);
  return { restored: removal.map(({ file }) => relative(file)), kept: [...keep].map(relative) };
}

/** A configuration that is broken keeps nobody from uninstalling. */
async function anyTmux(project: Project): Promise<Tmux> {
  try {
    return await project.tmux();
  } catch (error) {
    if (!(error instanceof OverseerError)) throw error;
    return tmuxAt("tmux", tmuxSocket(project.paths.root), project.env);
  }
}

/** The files of `.overseer/` that the user has changed since init wrote them. */
async function changedFiles({ paths, git }: Project): Promise<string[]> {
  const found = [paths.ignore, paths.config, paths.manifest, paths.userHooks].filter(exists);
  const isNoted = found.every((file) => isAsWritten(paths, file) !== null);
  const originals = new Map(isNoted ? [] : homeFiles(paths, await canonicalBranch(git, paths.root)));
  return found.filter(
    (file) => !(isAsWritten(paths, file) ?? originals.get(file) === readBytes(file)?.toString("utf8")),
  );
}

/** At or below a path of ours, or a part of a database, also one that was set aside. No worker has left a worktree. */
function isOurs(paths: Paths, file: string): boolean {
  const { root: _, home: _home, claude: _claude, worktrees: _worktrees, ...own } = paths;
  const isDatabase = [paths.ledger, paths.mail].some(
    (database) =>
      file.startsWith(database) &&
      /^(?:-wal|-shm|-journal)?(?:\.corrupt-.*)?$/.test(file.slice(database.length)),
  );
  return isDatabase || Object.values(own).some((path) => file === path || file.startsWith(`${path}/`));
}

async function refuseWithWorkers(project: Project): Promise<void> {
  const sessions = await project.ledger.currentSessions();
  const workers = sessions.filter(({ capability }) => capability !== ORCHESTRATOR);
  const live = workers.filter(({ state }) => isLive(state)).map(({ name }) => name);
  const { worktrees: folder } = project.paths;
  // Whatever else lies there is the user's, and stays.
  const worktrees = listFolder(folder).filter(
    (name) => exists(`${folder}/${name}/.git`) || workers.some((worker) => worker.name === name),
  );
  if (worktrees.length === 0 && live.length === 0) return;
  const what = [
    live.length > 0 ? `${live.join(", ")} still ${live.length === 1 ? "works" : "work"} here` : "",
    worktrees.length > 0 ? `.overseer/worktrees has work in it: ${worktrees.join(", ")}` : "",
  ];
  throw new OverseerError("workers_present", what.filter((part) => part !== "").join("; "), {
    hint: "overseer stop --all, overseer worktree clean --all, then overseer uninstall; with --force, clean saves what has not landed under refs/overseer/rescue/, which stay (git for-each-ref refs/overseer/rescue)",
  });
}
