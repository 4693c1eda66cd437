import { OverseerError } from "../domain/errors.ts";
import { PUSH_SETTINGS, paneEnvironment } from "../domain/pane-environment.ts";
import { explainScreen } from "../domain/screen.ts";
import { isLive } from "../domain/session.ts";
import { type ClaudeStart, claudeArgv, findProgram, prepareLaunch } from "../effects/claude.ts";
import { exists, remove } from "../effects/files.ts";
import { readConfig } from "../effects/git.ts";
import { packageFile } from "../effects/package.ts";
import { agentFiles, launchFile } from "../effects/paths.ts";
import { endTree } from "../effects/process-tree.ts";
import { processMark } from "../effects/processes.ts";
import type { Tmux } from "../effects/tmux.ts";
import type { Session } from "../store/contract.ts";
import { logSession, type Project, sessionEvent } from "./project.ts";
import type { Registered } from "./register.ts";
import { assertOurs, isRunning } from "./running.ts";

export function tmuxSessionOf(name: string): string {
  return `overseer-${name}`;
}

/** The absolute path of claude; tmux is looked for at the same time, before anything is made that would need it. */
export async function assertPrograms(project: Project): Promise<string> {
  const { config } = await project.config();
  const { env, paths } = project;
  findProgram(config.tmux.bin, env, paths.root, "install tmux: workers run in it");
  return findProgram(config.claude.bin, env, paths.root, "npm install -g @anthropic-ai/claude-code");
}

export type Start = Pick<ClaudeStart, "bin" | "session" | "prompt"> & { model: string | null };

/** Opens the pane in which the worker runs, and records it. */
export async function launch(project: Project, { session, token }: Registered, start: Start): Promise<void> {
  const { config } = await project.config();
  const { paths } = project;
  const files = agentFiles(paths, session.name);
  const cwd = session.worktree ?? paths.root;
  const pushSettings = await readConfig(project.git, cwd, PUSH_SETTINGS);
  const identity = {
    name: session.name,
    token,
    root: paths.root,
    programFolder: packageFile("bin"),
    excludesFile: exists(files.excludes) ? files.excludes : null,
    pushSettings,
  };
  const argv = claudeArgv({
    ...start,
    name: session.name,
    settings: files.settings,
    systemPrompt: files.systemPrompt,
    permissionMode: config.agents.permissionMode,
  });
  const env = paneEnvironment(project.env, identity);
  const tmux = await project.tmux();
  const tmuxSession = tmuxSessionOf(session.name);
  const pane = await openPane(tmux, tmuxSession, prepareLaunch(files.launch(session.id), { argv, env, cwd }));
  const launched = {
    ...pane,
    tmuxSession,
    // One that has ended already is known as such, and not as one of which nothing is known.
    mark: (await processMark(pane.pid)) ?? `${pane.pid}:gone`,
    claudeSessionId: start.session.id,
  };
  const event = sessionEvent(session, "session.launched", project.clock.now(), {
    pane: pane.paneId,
    pid: pane.pid,
    claudeSessionId: start.session.id,
    conversation: start.session.kind,
  });
  if (await project.ledger.recordLaunch(session.id, launched, event))
    return logSession(project, session, event);
  // It was stopped meanwhile, and whoever did that knew of no process.
  if (launched.mark !== null) await endTree(launched.mark, GRACE_MS);
  await tmux.close(pane.paneId);
  throw new OverseerError("ended_otherwise", `${session.name} was stopped before it was launched`, {
    hint: "overseer status",
  });
}

/** The name is this incarnation's now: a pane under it is what an earlier one, or a killed overseer, left. */
async function openPane(tmux: Tmux, tmuxSession: string, argv: readonly [string, ...string[]]) {
  const pane = await tmux.open(tmuxSession, argv);
  if (pane !== null) return pane;
  const panes = await tmux.panes();
  for (const { id } of panes.filter(({ session }) => session === tmuxSession)) await tmux.close(id);
  const opened = await tmux.open(tmuxSession, argv);
  if (opened !== null) return opened;
  throw new OverseerError("command_failed", `tmux has a session ${tmuxSession} already`, {
    hint: "overseer doctor --fix",
  });
}

const LOOK_AGAIN_MS = 15;
const LOOK_AT_PANE_MS = 1_000;

/** Returns when the worker's SessionStart hook has fired; `boot_failed` tells what its screen showed instead. */
export async function awaitStart(project: Project, sessionId: string): Promise<Session> {
  const { config } = await project.config();
  const deadline = performance.now() + config.agents.bootTimeout;
  let paneDue = performance.now() + LOOK_AT_PANE_MS;
  for (;;) {
    const session = await sessionOf(project, sessionId);
    if (session.state !== "booting") return assertLive(session);
    const isOver = performance.now() >= deadline;
    if (isOver || performance.now() >= paneDue) {
      paneDue = performance.now() + LOOK_AT_PANE_MS;
      const trouble = await troubleOf(project, session, isOver);
      // It may have started while its pane was looked at.
      if (trouble && (await sessionOf(project, sessionId)).state === "booting") throw trouble;
    }
    await Bun.sleep(LOOK_AGAIN_MS);
  }
}

export function assertLive(session: Session): Session {
  if (isLive(session.state)) return session;
  throw new OverseerError("ended_otherwise", `${session.name} is ${session.state} (${session.cause})`, {
    hint: `overseer logs ${session.name}`,
  });
}

export async function sessionOf(project: Project, sessionId: string): Promise<Session> {
  const found = await project.ledger.findSession({ sessionId });
  if (found) return found.session;
  throw new OverseerError("changed_meanwhile", "the ledger was replaced meanwhile", {
    hint: "overseer status",
  });
}

const SCROLLED_LINES = 50;

async function troubleOf(project: Project, session: Session, isOver: boolean): Promise<OverseerError | null> {
  const isUp = await isRunning(session);
  // tmux says that a pane is dead in its last line, and pushes the first out of sight for that.
  const screen = await screenOf(project, session, SCROLLED_LINES);
  const known = explainScreen(screen, project.paths.root);
  if (known) return new OverseerError("boot_failed", `${session.name} did not start: ${known.why}`, known);
  if (isUp && !isOver) return null;
  const what = isUp ? "was not ready in time (agents.bootTimeout)" : "ended at once";
  const last = screen
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(-8)
    .join("\n");
  const shown = last === "" ? "" : `; its screen said:\n${last}`;
  return new OverseerError("boot_failed", `${session.name}'s Claude Code ${what}${shown}`, {
    hint: "overseer doctor",
  });
}

/** What a worker's pane shows; empty when there is none. */
export async function screenOf(project: Project, session: Session, linesBefore = 0): Promise<string> {
  const tmux = await project.tmux();
  const pane = await paneOf(project, session);
  return pane === null ? "" : await tmux.text(pane.id, linesBefore);
}

/** Its pane is known by the launch file it was started with: a name may have had many. */
export async function paneOf(project: Project, session: Session) {
  const panes = await (await project.tmux()).panes();
  const isItsOwn = (command: string) => command.includes(launchFile(session.id));
  return panes.find((pane) => isItsOwn(pane.command)) ?? null;
}

/** Closes the pane and takes away what a launch that never happened left. */
export async function closePane(project: Project, session: Session): Promise<void> {
  const pane = await paneOf(project, session);
  if (pane) await (await project.tmux()).close(pane.id);
  remove(agentFiles(project.paths, session.name).launch(session.id));
}

/** How long a worker that is asked to end may take. */
export const GRACE_MS = 3_000;

/** Ends the worker's process with all that it started, and closes its pane. */
export async function leavePane(project: Project, session: Session): Promise<void> {
  assertOurs(project, session);
  const mark = await markOf(project, session);
  if (mark !== null) await endTree(mark, GRACE_MS);
  await closePane(project, session);
}

/** Its process; between tmux's opening of a pane and the record of it, what runs there. */
export async function markOf(project: Project, session: Session): Promise<string | null> {
  if (session.mark !== null) return session.mark;
  const pane = await paneOf(project, session);
  return pane === null || pane.isDead ? null : await processMark(pane.pid);
}
