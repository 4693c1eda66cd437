import { OverseerError } from "../domain/errors.ts";
import { readFacts } from "../domain/guard-facts.ts";
import { renewWorktree } from "../domain/need.ts";
import { isLive } from "../domain/session.ts";
import { exists, filesBelow, readBytes, remove } from "../effects/files.ts";
import { agentFiles, launchedIn, launchFile, passingFile } from "../effects/paths.ts";
import { processMark } from "../effects/processes.ts";
import { listLeavings, type WorktreeLine } from "./clean.ts";
import type { Finding } from "./doctor.ts";
import { discard, isSafe } from "./leavings.ts";
import { loadManifest } from "./manifest.ts";
import type { Project } from "./project.ts";
import { type Deed, findTroubles, type Repair, repairWorkers, type Trouble } from "./repair.ts";

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
  const repairs = isFixing ? await repairWorkers(project) : [];
  if (repairs.length > 0) return repaired(repairs);
  const troubles = isFixing ? [] : await findTroubles(project);
  if (troubles.length > 0) {
    const detail = troubles.map(inWords).join("; ");
    return { check: "workers", verdict: "broken", detail, hint: "overseer doctor --fix" };
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

function repaired(repairs: readonly Repair[]): Finding {
  const detail = repairs
    .map((repair) =>
      "done" in repair
        ? deedInWords(repair.done, repair.trouble)
        : `${inWords(repair.trouble)}, and that could not be repaired: ${repair.problem}`,
    )
    .join("; ");
  if (repairs.every((repair) => "done" in repair)) return { check: "workers", verdict: "fixed", detail };
  const hint = "see to that, then overseer doctor --fix again; .overseer/logs/errors.log has the details";
  return { check: "workers", verdict: "broken", detail, hint };
}

function deedInWords(deed: Deed, { kind, session: { name } }: Trouble): string {
  switch (deed) {
    case "undone":
      return `undid the sling of ${name}, which ${kind === "half-made" ? "was killed before it was done" : "never started"}`;
    case "taken over":
      return `kept ${name}, which runs although its sling was killed`;
    case "recorded":
      return `recorded ${name} as dead (overseer resume ${name})`;
    case "stopped":
      return `brought the stop of ${name} to its end`;
    case "finished":
      return `carried out what ${name} had finished`;
    case "left alone":
      return `left ${name} alone, which somebody else sees to`;
  }
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
  const closed = strays.length > 0 ? `closed ${strays.map(({ session }) => session).join(", ")}` : "";
  const removed = files.length > 0 ? `removed ${files.join(", ")}` : "";
  const done = [closed, removed].filter((part) => part !== "").join("; ");
  return { check: "panes", verdict: "fixed", detail: `${done}: nobody's` };
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
  const kept = orphans.filter((orphan) => !removable.includes(orphan));
  const detail = [
    removable.length > 0
      ? `removed nobody's and empty ones: ${removable.map(({ name }) => name).join(", ")}`
      : "",
    kept.length > 0
      ? `nobody's: ${kept.map((orphan) => (isFixing ? whyKept(orphan) : orphan.name)).join(", ")}`
      : "",
    gone.length > 0 ? `missing, of ${gone.map(({ name }) => name).join(", ")}` : "",
  ];
  const hints = [
    ...kept
      .slice(0, 1)
      .map(({ name, obstacle }) => obstacle?.hint ?? `overseer worktree clean ${name} --force`),
    ...gone.slice(0, 1).map(({ name }) => renewWorktree(gone.length === 1 ? name : "NAME")),
  ];
  return {
    check: "worktrees",
    verdict: hints.length === 0 ? "fixed" : "warning",
    detail: detail.filter((part) => part !== "").join("; "),
    ...(hints.length === 0 ? {} : { hint: hints.join("; ") }),
  };
}

function whyKept({ name, obstacle, dirty, isLanded }: WorktreeLine): string {
  const unknown = isLanded ? "git knows of no commit in it" : "it has commits that have not landed";
  return `${name} (kept: ${obstacle?.message ?? (dirty.length > 0 ? "it has uncommitted changes" : unknown)})`;
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
