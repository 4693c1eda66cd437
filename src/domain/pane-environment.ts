type Environment = Readonly<Record<string, string | undefined>>;

/** What belongs to the Claude Code session that calls, to its tmux, or to the worker that it is. */
const NOT_INHERITED = [
  /^CLAUDECODE$/,
  /^CLAUDE_CODE_(?:CHILD_SESSION|ENTRYPOINT|EXECPATH|SSE_PORT|(?:MESSAGING|SESSION|TASK|AGENT|TEAM|PARENT)_.*)$/,
  /^CLAUDE_(?:PID|EFFORT|PROJECT_DIR|ENV_FILE)$/,
  /^AI_AGENT$/,
  /^TMUX/,
  /^GIT_/,
  /^OVERSEER_/,
  // The calling shell's own, wrong in any other.
  /^(?:PWD|OLDPWD|SHLVL|_|COLUMNS|LINES)$/,
];

export interface PaneIdentity {
  name: string;
  token: string;
  root: string;
  /** The folder of the `overseer` program, so that the worker calls the one that slung it. */
  programFolder: string;
  /** Set where git must be told what of ours to overlook in the worktree. */
  excludesFile: string | null;
  /** What the user has configured of where pushes go: the settings that match `PUSH_SETTINGS`. */
  pushSettings: readonly (readonly [string, string])[];
}

export const PUSH_SETTINGS = "^(remote\\..*\\.(url|pushurl)|url\\..*\\.pushinsteadof)$";
/** A protocol that no git knows. Its helper, beside our program, says why. */
const NOWHERE = "a-worker-does-not-push";

/** The environment of a worker: the caller's, less what is the caller's alone, and git made unable to push. */
export function paneEnvironment(caller: Environment, identity: PaneIdentity): Record<string, string> {
  return {
    ...inherited(caller),
    PATH: `${identity.programFolder}:${caller.PATH ?? "/usr/local/bin:/usr/bin:/bin"}`,
    // What tmux would say; nobody else tells a program in its pane what terminal it has.
    TERM: "screen-256color",
    OVERSEER_AGENT_NAME: identity.name,
    OVERSEER_TOKEN: identity.token,
    OVERSEER_ROOT: identity.root,
    ...gitConfiguration(caller, identity),
  };
}

/** The same without an identity: for the commands of the user's that prepare a worktree. */
export function inherited(caller: Environment): Record<string, string> {
  const kept = Object.entries(caller).filter(([name]) => !NOT_INHERITED.some((own) => own.test(name)));
  return Object.fromEntries(kept.filter((pair): pair is [string, string] => pair[1] !== undefined));
}

/** git takes configuration from the environment, also below `bash -c` and `$( )`. */
function gitConfiguration(
  caller: Environment,
  { excludesFile, pushSettings }: PaneIdentity,
): Record<string, string> {
  const settings: [string, string][] = [
    ...blockedPushes(pushSettings),
    ...(excludesFile === null ? [] : [["core.excludesFile", excludesFile] as [string, string]]),
    ...identityOf(caller),
  ];
  const pairs = settings.flatMap(([key, value], at) => [
    [`GIT_CONFIG_KEY_${at}`, key],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ]);
  return { GIT_CONFIG_COUNT: String(settings.length), ...Object.fromEntries(pairs) };
}

/**
 * A push to any address goes to a protocol that does not exist; fetch is not touched. What the user has configured
 * would win where it is more exact: an address for pushes alone, or another rewriting of the beginning of one.
 */
function blockedPushes(settings: PaneIdentity["pushSettings"]): [string, string][] {
  const named = settings.flatMap(([name, value]) => {
    const [, remote = "", kind] = /^remote\.(.*)\.(url|pushurl)$/s.exec(name) ?? [];
    return kind === undefined ? [] : [{ remote, kind, value }];
  });
  const urls = named.filter(({ kind }) => kind === "url").map(({ value }) => value);
  const isRewritten = settings.some(
    ([name]) => name.endsWith(".pushinsteadof") && !name.startsWith(`url.${NOWHERE}`),
  );
  const pushUrls = named.filter(({ kind }) => kind === "pushurl");
  return [
    [`url.${NOWHERE}::.pushInsteadOf`, ""],
    ...(isRewritten ? urls : []).map((url): [string, string] => [`url.${NOWHERE}::.pushInsteadOf`, url]),
    ...pushUrls.map(({ remote, value }): [string, string] =>
      // The same rewriting would hit fetch, where both use one address; over HTTP there is no program to name.
      urls.some((url) => url.startsWith(value)) && !/^https?:/i.test(value)
        ? [`remote.${remote}.receivepack`, `git-remote-${NOWHERE}`]
        : [`url.${NOWHERE}::.insteadOf`, value],
    ),
  ];
}

/** Where the caller's name for commits comes from its environment, the worker still has to have it. */
function identityOf(caller: Environment): [string, string][] {
  const name = caller.GIT_AUTHOR_NAME || configured(caller, "user.name");
  const email = caller.GIT_AUTHOR_EMAIL || configured(caller, "user.email");
  return [
    ...(name ? [["user.name", name] as [string, string]] : []),
    ...(email ? [["user.email", email] as [string, string]] : []),
  ];
}

/** A worker that slings has it from its own pane's configuration. */
function configured(caller: Environment, key: string): string | undefined {
  const at = Array.from({ length: Number(caller.GIT_CONFIG_COUNT) || 0 }, (_, n) => n).findLast(
    (n) => caller[`GIT_CONFIG_KEY_${n}`] === key,
  );
  return at === undefined ? undefined : caller[`GIT_CONFIG_VALUE_${at}`];
}
