/** Where everything of overseer's lies in a user's repository. The only place that spells these paths. */
export interface Paths {
  root: string;
  home: string;
  config: string;
  compiled: string;
  manifest: string;
  userHooks: string;
  installed: string;
  ignore: string;
  specs: string;
  agents: string;
  worktrees: string;
  waiters: string;
  logs: string;
  journal: string;
  errors: string;
  ledger: string;
  mail: string;
  claude: string;
  settings: string;
  claudeMd: string;
}

// Joined by hand: loading node:path costs a hook more than opening its database.
export function pathsOf(root: string): Paths {
  const home = `${root}/.overseer`;
  const claude = `${root}/.claude`;
  return {
    root,
    home,
    config: `${home}/config.yaml`,
    compiled: `${home}/compiled.json`,
    manifest: `${home}/agent-manifest.json`,
    userHooks: `${home}/hooks.json`,
    installed: `${home}/installed.json`,
    ignore: `${home}/.gitignore`,
    specs: `${home}/specs`,
    agents: `${home}/agents`,
    worktrees: `${home}/worktrees`,
    waiters: `${home}/waiters`,
    logs: `${home}/logs`,
    journal: `${home}/logs/journal.ndjson`,
    errors: `${home}/logs/errors.log`,
    ledger: `${home}/sessions.db`,
    mail: `${home}/mail.db`,
    claude,
    settings: `${claude}/settings.local.json`,
    claudeMd: `${claude}/CLAUDE.md`,
  };
}

/** `<agent>/<time>`: a time that sorts, and that every file system takes as a name. */
export function sessionLogFolder(agent: string, startedAt: number): string {
  return `${agent}/${new Date(startedAt).toISOString().replaceAll(":", "-")}`;
}

/** What belongs to an agent's name, over all its sessions. */
export function agentFiles(paths: Paths, name: string) {
  const folder = `${paths.agents}/${name}`;
  return {
    folder,
    settings: `${folder}/settings.json`,
    systemPrompt: `${folder}/system-prompt.md`,
    excludes: `${folder}/git-excludes`,
    guard: `${folder}/guard.json`,
    identity: `${folder}/identity.yaml`,
    history: `${folder}/work-history.md`,
    launch: (sessionId: string) => `${folder}/${launchFile(sessionId)}`,
    /** An index of git's that lives no longer than the process. */
    scratchIndex: (use: "rescue" | "diff", pid: number) => `${folder}/${use}-index-${pid}`,
  };
}

/** How the launch of a session is known, also in what tmux tells of its pane. */
export function launchFile(sessionId: string): string {
  return `launch-${sessionId}.json`;
}

/** What a file of an agent's is that lives only for a moment, by its name; null for every other. */
export function passingFile(name: string): { sessionId: string } | { pid: number } | null {
  const sessionId = launchedIn(name);
  const pid = /^(?:rescue|diff)-index-(\d+)$/.exec(name)?.[1];
  if (sessionId !== null) return { sessionId };
  return pid === undefined ? null : { pid: Number(pid) };
}

/** The session whose launch file a text names; null when it names none. */
export function launchedIn(text: string): string | null {
  return /(?:^|\W)launch-(ses-[\w-]+)\.json/.exec(text)?.[1] ?? null;
}
