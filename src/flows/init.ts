import { OverseerError } from "../domain/errors.ts";
import { renderCompiled } from "../effects/compiled.ts";
import { ensureFolder, exists, readBytes, writeAtomically, writeIfMissing } from "../effects/files.ts";
import type { Git } from "../effects/git.ts";
import { type Paths, pathsOf } from "../effects/paths.ts";
import { findRoot } from "../effects/root.ts";
import { canonicalBranch } from "../flows/canonical-branch.ts";
import { renderConfigTemplate } from "./config.ts";
import {
  assertFolders,
  carryOut,
  clearLeftovers,
  isAsWritten,
  planInstallation,
  readTemplate,
} from "./installation.ts";
import type { Project } from "./project.ts";

export interface InitResult {
  root: string;
  canonicalBranch: string;
  isNew: boolean;
  changed: string[];
}

/** Everything is looked at before anything is written; run again, it writes nothing. `open` makes the databases. */
export async function initProject(
  git: Git,
  cwd: string,
  open: (paths: Paths) => Project,
): Promise<InitResult> {
  const root = await repositoryRoot(git, cwd);
  const paths = pathsOf(root);
  assertFolders(paths, homeFolders(paths));
  const installation = planInstallation(paths);
  const project = open(paths);
  const isNew = !exists(paths.config);
  const branch = isNew
    ? await canonicalBranch(git, root)
    : (await project.config()).config.project.canonicalBranch;
  const created = createHome(paths, branch);
  const isRecompiled = await refreshCompiled(project);
  await project.ledger.overview();
  await project.mail.unreadCounts();
  carryOut(paths, installation, unnoted(paths, branch));
  await clearLeftovers(paths);
  const recompiled = isRecompiled && !isNew ? [paths.compiled] : [];
  const changed = [...created, ...recompiled, ...installation.writes.map(({ file }) => file)];
  const { config } = await project.config();
  return {
    root,
    canonicalBranch: config.project.canonicalBranch,
    isNew,
    changed: changed.map((file) => file.slice(root.length + 1)),
  };
}

/** The files of `.overseer/` that are the user's to change, as init writes them. */
export function homeFiles(paths: Paths, branch: string): [file: string, content: string][] {
  const name = paths.root.slice(paths.root.lastIndexOf("/") + 1) || "project";
  return [
    [paths.ignore, readTemplate("gitignore")],
    [paths.config, renderConfigTemplate(readTemplate("config.yaml"), { name, canonicalBranch: branch })],
    [paths.manifest, readTemplate("agent-manifest.json")],
    [paths.userHooks, readTemplate("hooks.json")],
  ];
}

/** Files as init writes them that no record knows yet; several inits at once all come to the same answer. */
function unnoted(paths: Paths, branch: string): string[] {
  return homeFiles(paths, branch)
    .filter(
      ([file, content]) => isAsWritten(paths, file) === null && readBytes(file)?.toString("utf8") === content,
    )
    .map(([file]) => file);
}

function homeFolders(paths: Paths): string[] {
  return [paths.home, paths.specs, paths.agents, paths.worktrees, paths.waiters, paths.logs];
}

function createHome(paths: Paths, branch: string): string[] {
  for (const folder of homeFolders(paths)) ensureFolder(folder);
  return homeFiles(paths, branch).flatMap(([file, content]) => (writeIfMissing(file, content) ? [file] : []));
}

/** The hooks read this instead of config.yaml. Returns whether it has changed. */
export async function refreshCompiled(project: Project): Promise<boolean> {
  const { config } = await project.config();
  const compiled = renderCompiled({
    isRedacting: config.logging.redactSecrets,
    isWaking: config.delivery.wake === "waiter",
  });
  const isStale = readBytes(project.paths.compiled)?.toString("utf8") !== compiled;
  if (isStale) writeAtomically(project.paths.compiled, compiled);
  return isStale;
}

async function isBareRepository(git: Git, folder: string): Promise<boolean> {
  const { exitCode, stdout, stderr } = await git.run(folder, ["rev-parse", "--is-bare-repository"]);
  if (exitCode === 0) return stdout.trim() === "true";
  if (/not a git repository/i.test(stderr)) {
    throw new OverseerError("not_a_repository", `${folder} is not in a git repository`, {
      hint: "git init, commit something, then overseer init",
    });
  }
  throw new OverseerError("command_failed", `git cannot look at ${folder}: ${stderr.trim().slice(0, 2_000)}`);
}

async function repositoryRoot(git: Git, cwd: string): Promise<string> {
  const isBare = await isBareRepository(git, cwd);
  const root = findRoot(cwd);
  if (isBare || root === null || (await isBareRepository(git, root))) {
    throw new OverseerError(
      "bare_repository",
      `${cwd} belongs to a bare repository: there is no main checkout to work from`,
      {
        hint: "git clone it, then overseer init in the clone",
      },
    );
  }
  const head = await git.run(root, ["rev-parse", "--verify", "--quiet", "HEAD"]);
  if (head.exitCode !== 0) {
    throw new OverseerError(
      "no_commit",
      "this repository has no commit yet, so there is nothing to branch from",
      {
        hint: 'git commit --allow-empty -m "Begin", then overseer init',
      },
    );
  }
  return root;
}
