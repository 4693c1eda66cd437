import { formatDuration } from "../domain/duration.ts";
import { OverseerError } from "../domain/errors.ts";
import { type GuardFacts, renderFacts } from "../domain/guard-facts.ts";
import { hookGroups, isObject, type Settings, withHooks } from "../domain/hook-settings.ts";
import { historyLines } from "../domain/identity.ts";
import { type Definition, isReadOnly } from "../domain/manifest.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { inherited } from "../domain/pane-environment.ts";
import { renderTemplate } from "../domain/template.ts";
import {
  copyIfMissing,
  isRealFolder,
  kindOf,
  readBytes,
  realPath,
  remove,
  writeAtomically,
} from "../effects/files.ts";
import { appendLine } from "../effects/logs.ts";
import { hookProgram } from "../effects/package.ts";
import { agentFiles } from "../effects/paths.ts";
import { endTree } from "../effects/process-tree.ts";
import { processMark } from "../effects/processes.ts";
import { run } from "../effects/run.ts";
import { includedFiles } from "../effects/worktrees.ts";
import type { Session, Task } from "../store/contract.ts";
import { readIdentity } from "./identity.ts";
import { readTemplate } from "./installation.ts";
import { definitionText } from "./manifest.ts";
import type { Project } from "./project.ts";

/** What a worker is told, beside its row. */
export interface Brief {
  task: Task;
  definition: Definition;
  spec: { path: string; text: string } | null;
  base: string;
  /** What whoever had this task before has left. */
  handoff: string;
  /** What mulch knows about the project. */
  expertise: string;
}

const OVERLAY = ".claude/CLAUDE.md";
const OVERLAY_IGNORE = ".claude/.gitignore";
const LOCAL_OVERLAY = "CLAUDE.local.md";

/** Overlay, system prompt, rules and settings. Made anew each time a worker starts: what stands there may have changed. */
export async function writeInstructions(project: Project, session: Session, brief: Brief): Promise<void> {
  const files = agentFiles(project.paths, session.name);
  const worktree = session.worktree ?? project.paths.root;
  const overlay = await renderOverlay(project, session, brief);
  const place = await placeOverlay(project, worktree, session.name);
  if (place !== null) writeAtomically(`${worktree}/${place}`, overlay);
  const how = await definitionText(project, brief.definition);
  writeAtomically(files.systemPrompt, place === null ? `${how}\n${overlay}` : how);
  writeAtomically(files.guard, renderFacts(await guardFacts(project, session, brief.definition, place)));
  writeAtomically(files.settings, await renderSettings(project, brief.definition));
}

/** What the hooks judge by, with paths as they are once every link is followed. */
async function guardFacts(
  project: Project,
  session: Session,
  definition: Definition,
  place: string | null,
): Promise<GuardFacts> {
  const { config } = await project.config();
  const { root } = project.paths;
  const { name, capability, parent, branch, fileScope } = session;
  return {
    name,
    capability,
    parent: parent ?? ORCHESTRATOR,
    root: realPath(root),
    worktree: realPath(session.worktree ?? root),
    branch: branch ?? "",
    canonicalBranch: config.project.canonicalBranch,
    fileScope,
    isReadOnly: isReadOnly(definition),
    canSpawn: definition.canSpawn,
    ours: place === OVERLAY ? [OVERLAY, OVERLAY_IGNORE] : place === null ? [] : [place],
  };
}

async function renderOverlay(project: Project, session: Session, brief: Brief): Promise<string> {
  const { config } = await project.config();
  const identity = readIdentity(project, session.name);
  const { task, spec, base, definition } = brief;
  return renderTemplate(readTemplate("overlay.md.tmpl"), {
    name: session.name,
    capability: session.capability,
    parent: session.parent ?? ORCHESTRATOR,
    taskId: task.id,
    order: fenced(`${task.title}\n\n${task.body}`),
    spec: fenced(spec?.text ?? ""),
    specPath: spec?.path ?? "",
    branch: session.branch ?? "",
    base,
    files: session.fileScope.map((file) => `- \`${file}\``).join("\n"),
    checks: config.project.checks.map((check) => `- \`${check}\``).join("\n"),
    expertise: fenced(brief.expertise),
    history: identity === null ? "" : fenced(historyLines(identity)),
    handoff: fenced(brief.handoff),
    canSpawn: definition.canSpawn ? "yes" : "",
    canonicalBranch: config.project.canonicalBranch,
  });
}

/** In a block, `@path` does not make Claude Code read that file, or ask whether it may, and no heading mixes with ours. */
function fenced(text: string): string {
  if (text.trim() === "") return "";
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}text\n${text.trim()}\n${fence}`;
}

/**
 * Where the overlay goes without being seen by git: beside an ignore file of our own, or, where the repository has
 * files of its own in that place, to `CLAUDE.local.md`; null where it has that too.
 */
async function placeOverlay(project: Project, worktree: string, name: string): Promise<string | null> {
  const { excludes } = agentFiles(project.paths, name);
  const candidates = [OVERLAY, OVERLAY_IGNORE, LOCAL_OVERLAY];
  const [list, theirs] = await Promise.all([
    project.git.ask(worktree, ["ls-files", "-z", "--", ...candidates]),
    userExcludes(project),
  ]);
  const tracked = list.split("\0");
  const folder = `${worktree}/.claude`;
  const isLink = !isRealFolder(folder) && kindOf(folder) !== "missing";
  if (!isLink && !tracked.includes(OVERLAY) && !tracked.includes(OVERLAY_IGNORE)) {
    writeAtomically(`${worktree}/${OVERLAY_IGNORE}`, "/CLAUDE.md\n/.gitignore\n");
    // Main may begin to track an ignore file of its own there, and a merge would put it in the place of ours.
    writeAtomically(excludes, `${theirs}\n/${OVERLAY}\n`);
    return OVERLAY;
  }
  if (!isLink && !tracked.includes(OVERLAY)) removeStale(`${worktree}/${OVERLAY}`);
  if (tracked.includes(LOCAL_OVERLAY)) return null;
  // The user's own list goes with it: git knows only one such file.
  writeAtomically(excludes, `${theirs}\n/${LOCAL_OVERLAY}\n`);
  return LOCAL_OVERLAY;
}

/** What an earlier start put there, before the repository had a file of its own beside it. */
function removeStale(overlay: string): void {
  const [opening = ""] = readTemplate("overlay.md.tmpl").split("{{");
  if (readBytes(overlay)?.toString("utf8").startsWith(opening)) remove(overlay);
}

async function userExcludes({ git, paths, env }: Project): Promise<string> {
  const configured = await git.run(paths.root, ["config", "--type=path", "--get", "core.excludesFile"]);
  const standard = `${env.XDG_CONFIG_HOME || `${env.HOME ?? ""}/.config`}/git/ignore`;
  const file = configured.exitCode === 0 ? configured.stdout.trim() : standard;
  return readBytes(file)?.toString("utf8") ?? "";
}

async function renderSettings(project: Project, definition: Definition): Promise<string> {
  const { config } = await project.config();
  const theirs = userHooks(project);
  const settings = withHooks(theirs, hookGroups("worker", hookProgram(), project.paths.root));
  const deny = isReadOnly(definition) ? { deny: ["Edit", "Write", "NotebookEdit"] } : {};
  const permissions = { defaultMode: config.agents.permissionMode, allow: definition.tools, ...deny };
  // What a repository or a worker writes into .claude/ must not take the guard away.
  const hooks = { ...settings, disableAllHooks: false };
  return `${JSON.stringify({ ...hooks, permissions }, null, 2)}\n`;
}

/** `.overseer/hooks.json`: what the user wants every worker to have. */
export function userHooks({ paths }: Project): Settings {
  const bytes = readBytes(paths.userHooks);
  if (bytes === null) return {};
  try {
    const settings: unknown = JSON.parse(bytes.toString("utf8"));
    if (isObject(settings) && (settings.hooks === undefined || isObject(settings.hooks))) {
      return settings.hooks === undefined ? {} : { hooks: settings.hooks };
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new OverseerError("settings_invalid", ".overseer/hooks.json is not an object with hooks by event", {
    hint: 'correct it, or make it {"hooks": {}}',
  });
}

/** Copies what `.worktreeinclude` lists, never over or outside of what the worktree has. */
export async function copyIncluded({ git, paths }: Project, worktree: string): Promise<void> {
  for (const file of await includedFiles(git, paths.root)) {
    const above = foldersAbove(file).map((folder) => `${worktree}/${folder}`);
    if (!above.some((folder) => leadsOut(folder, worktree)))
      copyIfMissing(`${paths.root}/${file}`, `${worktree}/${file}`);
  }
}

function foldersAbove(file: string): string[] {
  const parts = file.split("/").slice(0, -1);
  return parts.map((_, depth) => parts.slice(0, depth + 1).join("/"));
}

/** Nothing is made below a file, a link that leads nowhere, or a link that leads out: the history may have any. */
function leadsOut(folder: string, worktree: string): boolean {
  const kind = kindOf(folder);
  if (kind === "missing") return false;
  return kind !== "folder" || !`${realPath(folder)}/`.startsWith(`${realPath(worktree)}/`);
}

const SETUP_GRACE_MS = 1_000;

/** The user's own command, such as `npm ci`; its output stays in the session's log. */
export async function runSetup(
  project: Project,
  session: Session,
  onStart: (mark: string | null) => Promise<void>,
): Promise<void> {
  const { config } = await project.config();
  const { setup, setupTimeout } = config.worktrees;
  if (setup === null || session.worktree === null) return;
  const log = `${project.paths.logs}/${session.logFolder}/setup.log`;
  const shown = log.slice(project.paths.root.length + 1);
  let mark: string | null = null;
  try {
    const result = await run(["/bin/sh", "-c", setup], {
      cwd: session.worktree,
      env: {
        ...inherited(project.env),
        OVERSEER_ROOT: project.paths.root,
        OVERSEER_AGENT_NAME: session.name,
      },
      timeoutMs: setupTimeout,
      end: async () => {
        if (mark !== null) await endTree(mark, SETUP_GRACE_MS);
      },
      onStart: async (pid) => {
        mark = await processMark(pid);
        await onStart(mark);
      },
    });
    for (const line of `${result.stdout}${result.stderr}`.split("\n")) appendLine(log, line);
    if (result.exitCode === 0) return;
    const last = `${result.stdout}${result.stderr}`.trim().split("\n").slice(-5).join("\n");
    throw new OverseerError("setup_failed", `worktrees.setup ended with ${result.exitCode}\n${last}`, {
      hint: `see ${shown}, correct worktrees.setup, then sling again`,
    });
  } catch (error) {
    if (!(error instanceof OverseerError && error.code === "command_timeout")) throw error;
    throw new OverseerError(
      "setup_failed",
      `worktrees.setup took longer than ${formatDuration(setupTimeout)}`,
      {
        hint: "raise worktrees.setupTimeout in .overseer/config.yaml",
        cause: error,
      },
    );
  }
}
