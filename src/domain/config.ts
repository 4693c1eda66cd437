import { z } from "zod";
import { parseDuration } from "./duration.ts";
import { nearest } from "./nearest.ts";

/** What a default may depend on: facts that only the caller knows, and one key that another follows. */
export interface Surroundings {
  readonly folderName: string;
  readonly canonicalBranch: string;
}
interface Given extends Surroundings {
  readonly autoDispatch: boolean;
}

/** One key of config.yaml: its default is in the form a person would write it, so "30s" and not 30000. */
class Key<T> {
  constructor(
    readonly schema: z.ZodType<T>,
    readonly fallback: unknown,
    readonly allowed: string,
    readonly meaning: string,
  ) {}
}
interface Section {
  readonly [name: string]: Key<unknown> | Section;
}

// A timer set for longer than 2^31 - 1 ms fires at once, which would turn a pause into a busy loop.
const LONGEST_MS = 24 * 86_400_000;

function duration(fallback: string, meaning: string, shortestMs = 1): Key<number> {
  const schema = z.string().transform((text, context) => {
    const ms = parseDuration(text);
    if (ms !== null && ms >= shortestMs && ms <= LONGEST_MS) return ms;
    context.addIssue({ code: "custom", message: "not a duration" });
    return z.NEVER;
  });
  const least = shortestMs === 0 ? "0s or more" : "more than 0s";
  const allowed = `a duration such as 500ms, 30s, 15m, 1h or 2d, ${least}, at most 24d`;
  return new Key(schema, fallback, allowed, meaning);
}

/** A pause that may be switched off with 0s. */
function pause(fallback: string, meaning: string): Key<number> {
  return duration(fallback, meaning, 0);
}

function count(fallback: number, atLeast: number, meaning: string): Key<number> {
  return new Key(z.int().min(atLeast), fallback, `a whole number, ${atLeast} or more`, meaning);
}

function flag(fallback: boolean | ((given: Given) => boolean), meaning: string): Key<boolean> {
  return new Key(z.boolean(), fallback, "true or false", meaning);
}

// The argument of a process cannot contain a NUL.
const TEXT = z.string().refine((text) => text.trim() !== "" && !text.includes("\0"));
const QUOTES = "in quotes if it looks like a number";

function text(fallback: string | ((given: Given) => string), meaning: string): Key<string> {
  return new Key(TEXT, fallback, `text, ${QUOTES}`, meaning);
}

function optionalText(meaning: string): Key<string | null> {
  return new Key(TEXT.nullable(), null, `text, ${QUOTES}, or null for none`, meaning);
}

function list(fallback: readonly string[], meaning: string): Key<string[]> {
  return new Key(z.array(TEXT), fallback, "a list of texts such as [a, b]", meaning);
}

function choice<const T extends string>(choices: readonly [T, ...T[]], meaning: string): Key<T> {
  const [fallback] = choices;
  return new Key(z.enum(choices), fallback, choices.join(", "), meaning);
}

// A branch that starts with "-" would be an option to git.
const BRANCH = z.string().refine((name) => /^[^-\s\0][^\s\0~^:?*[\\]*$/.test(name) && !name.includes(".."));
const branch = new Key(
  BRANCH,
  (given: Given) => given.canonicalBranch,
  `a branch name, ${QUOTES}`,
  "the branch where work lands",
);
const commandByFile = new Key(
  z.record(z.string(), TEXT),
  {},
  "a mapping of file to command such as { bun.lock: bun install }",
  "generated files that conflict, and the command that makes each anew",
);

/** The one place that knows the keys: order, default, what is allowed, meaning. The first choice of a list is its default. */
const KEYS = {
  project: {
    name: text((given) => given.folderName, "what this project is called"),
    canonicalBranch: branch,
    checks: list([], "commands a worker runs before it finishes"),
  },
  agents: {
    manifestPath: text(".overseer/agent-manifest.json", "the definitions of the roles"),
    baseDir: optionalText("folder of role definitions; null: the built-in ones"),
    maxConcurrent: count(15, 1, "live workers at once"),
    maxDepth: count(2, 1, "levels of workers below the orchestrator"),
    staggerDelay: pause("0s", "pause between two spawns"),
    bootTimeout: duration("30s", "how long a worker may take to start"),
    permissionMode: choice(
      ["dontAsk", "acceptEdits", "auto", "bypassPermissions", "default", "manual", "plan"],
      "Claude's permission mode for workers",
    ),
    model: optionalText("model for every worker, over the manifest's"),
  },
  worktrees: {
    baseDir: text(".overseer/worktrees", "where the workers' checkouts are"),
    setup: optionalText("command run in each new worktree, such as npm ci"),
    setupTimeout: duration("5m", "how long that command may take"),
  },
  tracker: choice(["builtin", "beads"], "where tasks are kept: builtin or beads"),
  mulch: {
    enabled: flag(true, "give workers mulch's expertise where mulch is installed"),
    domains: list([], "domains of expertise to give; none means all"),
    primeFormat: choice(["markdown", "xml", "json"], "markdown, xml or json"),
  },
  claude: { bin: text("claude", "name in PATH, or path") },
  tmux: { bin: text("tmux", "name in PATH, or path") },
  git: { bin: text("git", "name in PATH, or path") },
  delivery: {
    wake: choice(["waiter", "paste", "none"], "how an idle session learns of mail: waiter, paste or none"),
  },
  merge: {
    strategy: choice(["merge", "squash", "rebase"], "merge, squash or rebase"),
    verify: optionalText("command that must pass on the merged result before it lands"),
    verifyTimeout: duration("15m", "how long that command may take"),
    batch: count(8, 1, "entries verified together"),
    aiResolve: flag(true, "tier 3: ask a model about conflicts"),
    reimagine: flag(false, "tier 4: a worker makes the change anew"),
    resumeWorker: flag(true, "a conflict goes back to its worker; false: to the parent"),
    union: list([], "globs of files where both sides' additions are kept"),
    regenerate: commandByFile,
  },
  supervision: { enabled: flag(true, "false switches all supervision off") },
  watchdog: {
    interval: duration("30s", "time between two passes"),
    staleThreshold: duration("5m", "silence after which a worker is stalled"),
    zombieThreshold: duration("30m", "silence after which its process is ended, its work kept"),
    toolCeiling: duration("30m", "how long one tool call may run before it counts as silence"),
    restart: count(1, 0, "restarts of a dead worker, per task"),
    tier2: flag(false, "ask a model when the rules cannot tell"),
    tier2Timeout: duration("60s", "how long that model may take"),
    tier2Cooldown: pause("15m", "pause before the same worker is asked about again"),
  },
  watcher: {
    noProgress: duration("15m", "work without a change before the first nudge"),
    runawayTokens: count(200_000, 1, "tokens without a change that count as a runaway"),
  },
  recovery: {
    idleAfter: duration("15m", "silence that stalls planned work; a plain task uses staleThreshold"),
    maxRetries: count(2, 0, "nudges before the next rung of the ladder"),
    minResendInterval: pause("5m", "the same instruction is not sent twice within this"),
    backoff: {
      base: pause("2m", "first pause between retries; it doubles"),
      max: pause("30m", "longest pause between retries"),
    },
  },
  sync: {
    enabled: flag(true, "relay what one worker learns to related ones"),
    crossGoal: flag(false, "also across goals"),
    perMinute: count(2, 1, "relayed messages per recipient and minute"),
  },
  planner: {
    enabled: flag(true, "let a model plan goals"),
    model: optionalText("model that plans; null: Claude's default"),
    maxPhases: count(5, 1, "phases of a goal"),
    maxTasks: count(7, 1, "tasks of a phase"),
    maxSubtasks: count(7, 1, "subtasks of a task"),
    maxRepairs: count(2, 0, "repair prompts for an invalid plan"),
    timeout: duration("5m", "how long one planning call may take"),
  },
  plans: {
    autoDispatch: flag(false, "give out ready work without being asked"),
    autoMerge: flag(
      (given) => given.autoDispatch,
      "run the merge queue in each pass; if unset, as autoDispatch",
    ),
  },
  policy: { allowAgents: list(["*"], "names in this project that the overseer may act on") },
  notify: { command: optionalText("command told of escalations; gets title and text as arguments") },
  auto: {
    taskPoolCommand: optionalText("prints the next task; exit 4 or no output: none now"),
    concurrency: count(1, 1, "auto workers"),
    postAcceptCommand: optionalText("command run after each accepted task"),
    pollInterval: duration("10s", "pause between two cycles"),
    poolTimeout: duration("1m", "how long taskPoolCommand may take"),
    postAcceptTimeout: duration("30m", "how long postAcceptCommand may take"),
    drainTimeout: duration("30s", "how long stopping waits for running work"),
  },
  supervise: {
    remediationPrompt: optionalText(
      "what to tell the session that repairs auto mode; required for supervise",
    ),
    heartbeatTimeout: duration("30s", "age of the heartbeat that counts as ill"),
    stallTimeout: duration("1h", "work to give, but none assigned or completed for this long"),
    cooldown: pause("60s", "a run shorter than this after a repair stops everything"),
    checkInterval: duration("5s", "pause between two checks"),
    failOn: choice(["error", "warn"], "level of a log line that counts as ill: error or warn"),
    remediationTimeout: duration("30m", "how long a repair may take"),
    startTimeout: duration("60s", "how long auto mode may take to start"),
  },
  logging: {
    verbose: flag(false, "log more"),
    redactSecrets: flag(true, "keep secrets out of the logs"),
  },
  retention: { days: count(90, 1, "logs and events older than this are compacted by doctor --fix") },
} as const satisfies Section;

type Path = readonly string[];
type Values<N> = N extends Key<infer T> ? T : { -readonly [K in keyof N]: Values<N[K]> };

/** Plain data with the names of the file; a duration keeps its key's name and is a number of milliseconds. */
export type Config = Values<typeof KEYS>;

export type ConfigSource = "default" | "file" | "flag";

export interface ConfigEntry {
  /** Dotted, as in `watchdog.interval`. */
  readonly key: string;
  readonly value: unknown;
  /** As a person would write it: "30s" where `value` is 30000. */
  readonly written: unknown;
  readonly source: ConfigSource;
  readonly meaning: string;
}

export interface ConfigIssue {
  readonly path: readonly (string | number)[];
  readonly message: string;
  readonly allowed: string;
  readonly source: ConfigSource;
}

export type ConfigResolution =
  | { readonly kind: "valid"; readonly config: Config; readonly entries: readonly ConfigEntry[] }
  | { readonly kind: "invalid"; readonly issues: readonly ConfigIssue[] };

/** The walk over KEYS is ours and not z.object's: it keeps each value's source, and suggests the key that was meant. */
interface Walk {
  readonly given: Given;
  readonly overrides: ReadonlyMap<string, unknown>;
  readonly entries: ConfigEntry[];
  readonly issues: ConfigIssue[];
}

/** `raw` is what the file says (null for nothing); `overrides` are flags by dotted key, where undefined is "not given". */
export function resolveConfig(
  raw: unknown,
  surroundings: Surroundings,
  overrides: Readonly<Record<string, unknown>> = {},
): ConfigResolution {
  const flags = new Map(Object.entries(overrides).filter(([, value]) => value !== undefined));
  const autoDispatch = (flags.get("plans.autoDispatch") ?? valueAt(raw, ["plans", "autoDispatch"])) === true;
  const walk: Walk = { given: { ...surroundings, autoDispatch }, overrides: flags, entries: [], issues: [] };
  reportUnknownFlags(walk);
  // The walk visits exactly the keys of KEYS, and each value has passed its own schema; TypeScript cannot see that.
  const config = resolveSection(walk, KEYS, raw, []) as Config;
  if (walk.issues.length === 0) reportContradictions(walk, config);
  if (walk.issues.length > 0) return { kind: "invalid", issues: walk.issues };
  return { kind: "valid", config, entries: walk.entries };
}

function resolveSection(walk: Walk, section: Section, raw: unknown, path: Path): unknown {
  const written = sectionWritten(walk, section, raw, path);
  for (const name of Object.keys(written)) {
    if (!Object.hasOwn(section, name)) reportUnknown(walk, [...path, name], Object.keys(section), "file");
  }
  const resolved = Object.entries(section).map(([name, node]) => {
    const value = Object.hasOwn(written, name) ? written[name] : undefined;
    const here = [...path, name];
    const isKey = node instanceof Key;
    return [name, isKey ? resolveKey(walk, node, value, here) : resolveSection(walk, node, value, here)];
  });
  return Object.fromEntries(resolved);
}

/** A section whose lines are all commented out reads as null, which is as good as not there. */
function sectionWritten(walk: Walk, section: Section, raw: unknown, path: Path): Record<string, unknown> {
  if (raw === undefined || raw === null) return {};
  if (isMapping(raw)) return raw;
  const allowed = `a mapping with the keys ${Object.keys(section).join(", ")}`;
  walk.issues.push({ path, message: `is ${describe(raw)}`, allowed, source: "file" });
  return {};
}

function resolveKey(walk: Walk, key: Key<unknown>, fromFile: unknown, path: Path): unknown {
  const dotted = path.join(".");
  const { written, source } = chooseWritten(walk, key, fromFile, dotted);
  const parsed = key.schema.safeParse(written);
  if (parsed.success) {
    walk.entries.push({ key: dotted, value: parsed.data, written, source, meaning: key.meaning });
    return parsed.data;
  }
  for (const issue of parsed.error.issues) {
    const inside = issue.path.map((step) => (typeof step === "number" ? step : String(step)));
    const message = `is ${describe(valueAt(written, inside))}`;
    walk.issues.push({ path: [...path, ...inside], message, allowed: key.allowed, source });
  }
  return undefined;
}

type Chosen = Pick<ConfigEntry, "written" | "source">;

function chooseWritten(walk: Walk, key: Key<unknown>, fromFile: unknown, dotted: string): Chosen {
  if (walk.overrides.has(dotted)) return { written: walk.overrides.get(dotted), source: "flag" };
  if (fromFile !== undefined) return { written: fromFile, source: "file" };
  const { fallback } = key;
  return { written: typeof fallback === "function" ? fallback(walk.given) : fallback, source: "default" };
}

function reportUnknownFlags(walk: Walk): void {
  const known = dottedKeys(KEYS);
  for (const dotted of walk.overrides.keys()) {
    if (!known.includes(dotted)) reportUnknown(walk, [dotted], known, "flag");
  }
}

function reportUnknown(walk: Walk, path: Path, siblings: readonly string[], source: ConfigSource): void {
  const suggestion = suggest(path, siblings);
  const message = `is not a known key${suggestion === null ? "" : ` (did you mean ${suggestion}?)`}`;
  const allowed = source === "flag" ? "what overseer config show lists" : siblings.join(", ");
  walk.issues.push({ path, message, allowed, source });
}

/** A near sibling; else the one key of another section that has this name, or this dotted name. */
function suggest(path: Path, siblings: readonly string[]): string | null {
  const name = path.at(-1) ?? "";
  const sibling = nearest(name, siblings);
  if (sibling !== null) return [...path.slice(0, -1), sibling].join(".");
  const namesakes = dottedKeys(KEYS).filter((key) => key === name || key.endsWith(`.${name}`));
  const [only] = namesakes;
  if (only === undefined || namesakes.length > 1) return null;
  const dot = only.lastIndexOf(".");
  return `${only.slice(dot + 1)} under ${only.slice(0, dot)}`;
}

function reportContradictions(walk: Walk, config: Config): void {
  const { base, max } = config.recovery.backoff;
  if (base <= max) return;
  const message = "has a base that is longer than its max";
  walk.issues.push({ path: ["recovery", "backoff"], message, allowed: "base up to max", source: "file" });
}

function dottedKeys(section: Section, prefix = ""): string[] {
  return Object.entries(section).flatMap(([name, node]) =>
    node instanceof Key ? [prefix + name] : dottedKeys(node, `${prefix}${name}.`),
  );
}

function valueAt(value: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>(
    (inner, step) =>
      typeof inner === "object" && inner !== null && Object.hasOwn(inner, step)
        ? Reflect.get(inner, step)
        : undefined,
    value,
  );
}

/** Not a Date, Buffer or Set, which YAML tags can make. */
function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** Never the inside of a list or mapping: an alias can make it endless. */
function describe(value: unknown): string {
  if (value === null || value === undefined) return "empty";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return isMapping(value) ? "a mapping" : "a value with a special tag";
  if (typeof value !== "string") return String(value);
  return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}...` : value);
}
