import { OverseerError } from "../domain/errors.ts";
import { readFacts } from "../domain/guard-facts.ts";
import { isLive } from "../domain/session.ts";
import { exists, filesBelow, readBytes, remove } from "../effects/files.ts";
import { agentFiles, launchedIn, launchFile, passingFile } from "../effects/paths.ts";
import { processMark } from "../effects/processes.ts";
import { listLeavings } from "./clean.ts";
import type { Finding } from "./doctor.ts";
import { discard, isSafe } from "./leavings.ts";
import { loadManifest } from "./manifest.ts";
import type { Project } from "./project.ts";
import { findTroubles, repairWorkers, type Trouble } from "./repair.ts";

export async function checkManifest(project: Project): Promise<Finding> {
  try {
    const { agents } = await loadManifest(project);
    return { check: "roles", verdict: "ok", detail: Object.keys(agents).join(", ") };
  } catch (error) {
    if (!(error instanceof OverseerError)) throw error;
    const hint = error.hint === undefined ? {} : { hint: error.hint };
    return { check: "roles", verdict: "broken", detail: error.message, ...hint };
  }
}

/** Half-made spawns, workers whose process is gone, and those that finished without anybody noticing. */
export async function checkWorkers(project: Project, isFixing: boolean): Promise<Finding> {
  const troubles = isFixing ? await repairWorkers(project) : await findTroubles(project);
  if (troubles.length > 0) {
    const detail = troubles.map(inWords).join("; ");
    if (!isFixing) return { check: "workers", verdict: "broken", detail, hint: "overseer doctor --fix" };
    return { check: "workers", verdict: "fixed", detail };
  }
  return { check: "workers", verdict: "ok", detail: `${(await project.ledger.liveWorkers(-1)).length} live` };
}

function inWords({ kind, session }: Trouble): string {
  switch (kind) {
    case "half-made":
      return `the sling of ${session.name} was killed before it was done`;
    case "never started":
      return `${session.name} was launched and never started`;
    case "died":
      return `${session.name} is called ${session.state}, but its process is gone (overseer resume ${session.name})`;
    case "half-stopped":
      return `the stop of ${session.name} was killed before it was done`;
    case "unfinished":
      return `${session.name} has finished, and that was not carried out`;
  }
}

/** Live workers that may write nothing, because their hooks cannot tell what they may. */
export async function checkGuards(project: Project): Promise<Finding> {
  const workers = (await project.ledger.liveWorkers(-1)).filter(({ worktree }) => worktree !== null);
  const bare = workers.filter(({ name }) => {
    const text = readBytes(agentFiles(project.paths, name).guard)?.toString("utf8") ?? null;
    return readFacts(text) === null;
  });
  const [first] = bare;
  if (first === undefined) return { check: "guards", verdict: "ok", detail: `${workers.length} live` };
  return {
    check: "guards",
    verdict: "broken",
    detail: `guard.json is missing or damaged, so these may not write: ${bare.map(({ name }) => name).join(", ")}`,
    hint: `overseer stop ${first.name}, overseer resume ${first.name}`,
  };
}

/** Panes on our own socket that no live session has, and launches that never came to be. */
export async function checkPanes(project: Project, isFixing: boolean): Promise<Finding> {
  const tmux = await project.tmux();
  const panes = await tmux.panes();
  const sessions = await project.ledger.currentSessions();
  const live = sessions.filter(({ state }) => isLive(state));
  // A window that a person opened beside a worker's is theirs.
  const launched = panes.filter(({ command }) => launchedIn(command) !== null);
  const strays = launched.filter(({ command }) => !live.some(({ id }) => command.includes(launchFile(id))));
  const files = await strayLaunches(project);
  if (strays.length + files.length === 0) return { check: "panes", verdict: "ok", detail: `${panes.length}` };
  const detail = `nobody's: ${[...strays.map(({ session }) => session), ...files].join(", ")}`;
  if (!isFixing) return { check: "panes", verdict: "warning", detail, hint: "overseer doctor --fix" };
  for (const { id } of strays) await tmux.close(id);
  for (const file of files) remove(`${project.paths.agents}/${file}`);
  return { check: "panes", verdict: "fixed", detail };
}

/** What only lives for a moment, and stays where somebody was killed: a launch has a token in it. */
async function strayLaunches(project: Project): Promise<string[]> {
  const workers = await project.ledger.liveWorkers(-1);
  const booting = workers.filter(({ state }) => state === "booting").map(({ id }) => id);
  const strays: string[] = [];
  for (const file of filesBelow(project.paths.agents)) {
    const passing = passingFile(file.slice(file.lastIndexOf("/") + 1));
    if (passing === null) continue;
    const isNeeded =
      "pid" in passing ? (await processMark(passing.pid)) !== null : booting.includes(passing.sessionId);
    if (!isNeeded) strays.push(file);
  }
  return strays;
}

/** Worktrees that the ledger knows nothing of, and live workers without one. */
export async function checkWorktrees(project: Project, isFixing: boolean): Promise<Finding> {
  const leavings = await listLeavings(project);
  const orphans = leavings.filter(({ state, hasWorktree }) => state === null && hasWorktree);
  const sessions = await project.ledger.currentSessions();
  const gone = sessions.filter((s) => isLive(s.state) && s.worktree !== null && !exists(s.worktree));
  if (orphans.length + gone.length === 0) {
    const count = leavings.filter(({ hasWorktree }) => hasWorktree).length;
    return { check: "worktrees", verdict: "ok", detail: `${count}` };
  }
  const removable = isFixing ? orphans.filter((orphan) => isSafe(orphan) && orphan.tips.length > 0) : [];
  for (const orphan of removable) await discard(project, orphan, { ...orphan, baseCommit: null });
  const kept = orphans.filter((orphan) => !removable.includes(orphan)).map(({ name }) => name);
  const detail = [
    removable.length > 0
      ? `nobody's and empty, removed: ${removable.map(({ name }) => name).join(", ")}`
      : "",
    kept.length > 0 ? `nobody's: ${kept.join(", ")}` : "",
    gone.length > 0 ? `missing, of ${gone.map(({ name }) => name).join(", ")}` : "",
  ];
  const isMended = kept.length + gone.length === 0;
  const [first] = orphans.filter((orphan) => !removable.includes(orphan));
  const clean = `overseer worktree clean ${first?.name} --force`;
  const hint = first ? (first.obstacle?.hint ?? clean) : "overseer resume makes it anew";
  const said = detail.filter((part) => part !== "").join("; ");
  return {
    check: "worktrees",
    verdict: isMended ? "fixed" : "warning",
    detail: said,
    ...(isMended ? {} : { hint }),
  };
}

export async function checkRescues(project: Project): Promise<Finding> {
  const refs = await project.git.ask(project.paths.root, [
    "for-each-ref",
    "--format=%(refname)",
    "refs/overseer/rescue",
  ]);
  const names = refs.split("\n").filter((ref) => ref !== "");
  const shown = names.length === 0 ? "none" : `${names.length}: ${names.slice(-3).join(", ")}`;
  return { check: "rescues", verdict: "ok", detail: shown };
}
