import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import fc from "fast-check";
import { parse } from "yaml";
import { type Config, resolveConfig } from "../src/domain/config.ts";
import { formatDuration, parseDuration } from "../src/domain/duration.ts";
import { OverseerError } from "../src/domain/errors.ts";
import { nearest, nearestFew } from "../src/domain/nearest.ts";
import { loadConfig, renderConfigTemplate } from "../src/flows/config.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Copied from the specification by hand, so that a changed default in the code is seen here. */
const DEFAULTS: Record<string, unknown> = {
  "project.name": "my-repo",
  "project.canonicalBranch": "trunk",
  "project.checks": [],
  "agents.manifestPath": ".overseer/agent-manifest.json",
  "agents.baseDir": null,
  "agents.maxConcurrent": 15,
  "agents.maxDepth": 2,
  "agents.staggerDelay": 0,
  "agents.bootTimeout": 30 * SECOND,
  "agents.permissionMode": "dontAsk",
  "agents.model": null,
  "worktrees.baseDir": ".overseer/worktrees",
  "worktrees.setup": null,
  "worktrees.setupTimeout": 5 * MINUTE,
  tracker: "builtin",
  "mulch.enabled": true,
  "mulch.domains": [],
  "mulch.primeFormat": "markdown",
  "claude.bin": "claude",
  "tmux.bin": "tmux",
  "git.bin": "git",
  "delivery.wake": "waiter",
  "merge.strategy": "merge",
  "merge.verify": null,
  "merge.verifyTimeout": 15 * MINUTE,
  "merge.batch": 8,
  "merge.aiResolve": true,
  "merge.reimagine": false,
  "merge.resumeWorker": true,
  "merge.union": [],
  "merge.regenerate": {},
  "supervision.enabled": true,
  "watchdog.interval": 30 * SECOND,
  "watchdog.staleThreshold": 5 * MINUTE,
  "watchdog.zombieThreshold": 30 * MINUTE,
  "watchdog.toolCeiling": 30 * MINUTE,
  "watchdog.restart": 1,
  "watchdog.tier2": false,
  "watchdog.tier2Timeout": 60 * SECOND,
  "watchdog.tier2Cooldown": 15 * MINUTE,
  "watcher.noProgress": 15 * MINUTE,
  "watcher.runawayTokens": 200_000,
  "recovery.idleAfter": 15 * MINUTE,
  "recovery.maxRetries": 2,
  "recovery.minResendInterval": 5 * MINUTE,
  "recovery.backoff.base": 2 * MINUTE,
  "recovery.backoff.max": 30 * MINUTE,
  "sync.enabled": true,
  "sync.crossGoal": false,
  "sync.perMinute": 2,
  "planner.enabled": true,
  "planner.model": null,
  "planner.maxPhases": 5,
  "planner.maxTasks": 7,
  "planner.maxSubtasks": 7,
  "planner.maxRepairs": 2,
  "planner.timeout": 5 * MINUTE,
  "plans.autoDispatch": false,
  "plans.autoMerge": false,
  "policy.allowAgents": ["*"],
  "notify.command": null,
  "auto.taskPoolCommand": null,
  "auto.concurrency": 1,
  "auto.postAcceptCommand": null,
  "auto.pollInterval": 10 * SECOND,
  "auto.poolTimeout": 1 * MINUTE,
  "auto.postAcceptTimeout": 30 * MINUTE,
  "auto.drainTimeout": 30 * SECOND,
  "supervise.remediationPrompt": null,
  "supervise.heartbeatTimeout": 30 * SECOND,
  "supervise.stallTimeout": 1 * HOUR,
  "supervise.cooldown": 60 * SECOND,
  "supervise.checkInterval": 5 * SECOND,
  "supervise.failOn": "error",
  "supervise.remediationTimeout": 30 * MINUTE,
  "supervise.startTimeout": 60 * SECOND,
  "logging.verbose": false,
  "logging.redactSecrets": true,
  "retention.days": 90,
};

/** For each key a value that differs from the default: as written, and as read where that is something else. */
const OTHERS: Record<string, { written: unknown; value?: unknown }> = Object.fromEntries(
  Object.entries(DEFAULTS).map(([key, value]) => [key, otherThan(key, value)]),
);

function otherThan(key: string, value: unknown): { written: unknown; value?: unknown } {
  const choices: Record<string, string> = {
    "agents.permissionMode": "acceptEdits",
    tracker: "beads",
    "mulch.primeFormat": "xml",
    "delivery.wake": "paste",
    "merge.strategy": "squash",
    "supervise.failOn": "warn",
  };
  if (key in choices) return { written: choices[key] };
  if (isDurationKey(key)) return { written: "3m", value: 3 * MINUTE };
  if (typeof value === "boolean") return { written: !value };
  if (typeof value === "number") return { written: value + 1 };
  if (Array.isArray(value)) return { written: ["one", "two"] };
  if (key === "merge.regenerate") return { written: { "bun.lock": "bun install" } };
  return { written: "something" };
}

function isDurationKey(key: string): boolean {
  const counts = /(max[A-Z]\w*|batch|restart|runawayTokens|perMinute|concurrency|days)$/;
  return typeof DEFAULTS[key] === "number" && !counts.test(key);
}

const SURROUNDINGS = { folderName: "my-repo", canonicalBranch: "trunk" };
const DEFAULT_CONFIG = nest(DEFAULTS);

/** {"a.b": 1} as {a: {b: 1}}. */
function nest(flat: Record<string, unknown>): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(flat)) {
    const names = key.split(".");
    const last = names.pop() ?? key;
    let section = root;
    for (const name of names) {
      const next = section[name] ?? {};
      section[name] = next;
      section = next as Record<string, unknown>;
    }
    section[last] = value;
  }
  return root;
}

function resolved(raw: unknown, overrides?: Record<string, unknown>) {
  const resolution = resolveConfig(raw, SURROUNDINGS, overrides);
  if (resolution.kind === "invalid") throw new Error(JSON.stringify(resolution.issues));
  return resolution;
}

function issuesOf(raw: unknown, overrides?: Record<string, unknown>) {
  const resolution = resolveConfig(raw, SURROUNDINGS, overrides);
  return resolution.kind === "invalid" ? resolution.issues : [];
}

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function folder(): string {
  const root = mkdtempSync(join(tmpdir(), "overseer-config-"));
  folders.push(root);
  mkdirSync(join(root, ".overseer"));
  return root;
}

function withFile(content: string | Uint8Array): string {
  const root = folder();
  writeFileSync(join(root, ".overseer/config.yaml"), content);
  return root;
}

function load(root: string, overrides: Record<string, unknown> = {}) {
  return loadConfig(root, { canonicalBranch: () => "trunk", overrides });
}

async function configOf(content: string, overrides?: Record<string, unknown>): Promise<Config> {
  return (await load(withFile(content), overrides)).config;
}

async function refusal(root: string, overrides?: Record<string, unknown>): Promise<OverseerError> {
  const outcome = await load(root, overrides).catch((error: unknown) => error);
  if (!(outcome instanceof OverseerError)) throw new Error(`not refused: ${String(outcome)}`);
  expect(outcome.code).toBe("config_invalid");
  expect(outcome.hint).toContain("overseer config validate");
  return outcome;
}

async function messageFor(content: string | Uint8Array): Promise<string> {
  return (await refusal(withFile(content))).message;
}

test("without a file every key has the default of the specification", async () => {
  const { config, entries } = await load(folder());
  const values = Object.fromEntries(entries.map(({ key, value }) => [key, value]));
  expect(values).toEqual({ ...DEFAULTS, "project.name": config.project.name });
  expect(entries.map(({ source }) => source)).not.toContain("file");
  expect(config.project.name).toStartWith("overseer-config-");
});

test("the configuration has exactly the keys of the specification, with a meaning each, and is plain JSON", () => {
  const { config, entries } = resolved(null);
  expect(config).toEqual(DEFAULT_CONFIG as Config);
  expect(JSON.parse(JSON.stringify(config))).toEqual(DEFAULT_CONFIG);
  expect(entries.map(({ key }) => key).sort()).toEqual(Object.keys(DEFAULTS).sort());
  for (const { meaning } of entries) expect(meaning).toMatch(/^\S.*\S$/);
});

test("any subset of keys validates, and the rest keep their defaults", () => {
  fc.assert(
    fc.property(fc.subarray(Object.keys(DEFAULTS)), (keys) => {
      const written = Object.fromEntries(keys.map((key) => [key, OTHERS[key]?.written]));
      const { entries } = resolved(nest(written));
      for (const { key, value, written: shown, source } of entries) {
        const other = OTHERS[key];
        const isSet = keys.includes(key);
        // autoMerge follows autoDispatch when it is not set itself.
        const follows = key === "plans.autoMerge" && !isSet && keys.includes("plans.autoDispatch");
        expect(source).toBe(isSet ? "file" : "default");
        expect(value).toEqual(isSet ? (other?.value ?? other?.written) : follows ? true : DEFAULTS[key]);
        if (isSet) expect(shown).toEqual(other?.written);
      }
    }),
  );
});

test("every key refuses a value of the wrong kind and says what is allowed", () => {
  for (const key of Object.keys(DEFAULTS)) {
    const issues = issuesOf(nest({ [key]: { wrong: 5 } }));
    expect(issues.map(({ path }) => path.slice(0, key.split(".").length).join("."))).toEqual([key]);
    expect(issues[0]?.allowed).not.toBe("");
  }
});

test("every duration refuses a bare number, nonsense, and more than a timer can wait", () => {
  for (const key of Object.keys(DEFAULTS).filter(isDurationKey)) {
    for (const wrong of [30, "soon", "", "1.5h", "-1s", "25d", null]) {
      expect(issuesOf(nest({ [key]: wrong }))).toHaveLength(1);
    }
  }
});

test("a pause may be 0s, a timeout or an interval may not", () => {
  const pauses = ["agents.staggerDelay", "watchdog.tier2Cooldown", "recovery.minResendInterval"];
  const zeroable = [...pauses, "supervise.cooldown", "recovery.backoff.base"];
  for (const key of Object.keys(DEFAULTS).filter(isDurationKey)) {
    if (key === "recovery.backoff.max") continue;
    expect([key, issuesOf(nest({ [key]: "0s" })).length]).toEqual([key, zeroable.includes(key) ? 0 : 1]);
  }
});

test("whole numbers have a least value", () => {
  const least: Record<string, number> = {
    "agents.maxConcurrent": 1,
    "agents.maxDepth": 1,
    "merge.batch": 1,
    "watchdog.restart": 0,
    "watcher.runawayTokens": 1,
    "recovery.maxRetries": 0,
    "sync.perMinute": 1,
    "planner.maxPhases": 1,
    "planner.maxTasks": 1,
    "planner.maxSubtasks": 1,
    "planner.maxRepairs": 0,
    "auto.concurrency": 1,
    "retention.days": 1,
  };
  for (const [key, atLeast] of Object.entries(least)) {
    expect(issuesOf(nest({ [key]: atLeast }))).toEqual([]);
    expect(issuesOf(nest({ [key]: atLeast - 1 }))[0]?.message).toBe(`is ${atLeast - 1}`);
    expect(issuesOf(nest({ [key]: atLeast + 0.5 }))).toHaveLength(1);
    expect(issuesOf(nest({ [key]: String(atLeast) }))).toHaveLength(1);
  }
});

test("choices are the specified ones", () => {
  const choices: Record<string, string[]> = {
    tracker: ["builtin", "beads"],
    "mulch.primeFormat": ["markdown", "xml", "json"],
    "delivery.wake": ["waiter", "paste", "none"],
    "merge.strategy": ["merge", "squash", "rebase"],
    "supervise.failOn": ["error", "warn"],
  };
  for (const [key, allowed] of Object.entries(choices)) {
    for (const choice of allowed) expect(issuesOf(nest({ [key]: choice }))).toEqual([]);
    expect(issuesOf(nest({ [key]: "other" }))[0]?.allowed).toBe(allowed.join(", "));
  }
});

test("autoMerge follows autoDispatch unless it is set", () => {
  expect(resolved({ plans: { autoDispatch: true } }).config.plans.autoMerge).toBe(true);
  expect(resolved({ plans: { autoDispatch: true, autoMerge: false } }).config.plans.autoMerge).toBe(false);
  expect(resolved(null, { "plans.autoDispatch": true }).config.plans.autoMerge).toBe(true);
  const over = resolved({ plans: { autoDispatch: true } }, { "plans.autoDispatch": false });
  expect(over.config.plans.autoMerge).toBe(false);
});

test("a backoff whose base is longer than its max is refused", async () => {
  const message = await messageFor("recovery:\n  backoff:\n    base: 1h\n");
  expect(message).toStartWith(".overseer/config.yaml:2: recovery.backoff ");
});

test("a branch that git would take for an option, or that is no branch name, is refused", () => {
  for (const name of ["-f", "a b", "a..b", "", "a:b", 1.1]) {
    expect(issuesOf({ project: { canonicalBranch: name } })).toHaveLength(1);
  }
  expect(issuesOf({ project: { canonicalBranch: "release/1.1-x_y" } })).toEqual([]);
});

test("an unknown key is named with its line and the key that was meant", async () => {
  const names = Object.keys(DEFAULTS).filter((key) => (key.split(".").at(-1) ?? "").length >= 5);
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...names),
      fc.nat({ max: 20 }),
      fc.nat({ max: 100 }),
      async (key, blank, at) => {
        const path = key.split(".");
        const name = path.pop() ?? "";
        const place = 1 + (at % (name.length - 1));
        const typo = `${name.slice(0, place)}q${name.slice(place + 1)}`;
        const above = path.map((section, depth) => `${"  ".repeat(depth)}${section}:\n`).join("");
        const text = `${"# blank\n".repeat(blank)}${above}${"  ".repeat(path.length)}${typo}: 1\n`;
        const line = blank + path.length + 1;
        const prefix = `.overseer/config.yaml:${line}: ${[...path, typo].join(".")} is not a known key`;
        expect(await messageFor(text)).toStartWith(`${prefix} (did you mean ${key}?); allowed: `);
      },
    ),
    { numRuns: 60 },
  );
});

test("a key in the wrong section, or written with a dot, is told where it belongs", async () => {
  const belongs = "(did you mean maxConcurrent under agents?)";
  expect(await messageFor("maxConcurrent: 3\n")).toContain(belongs);
  expect(await messageFor("project:\n  maxConcurrent: 3\n")).toContain(belongs);
  expect(await messageFor("agents.maxConcurrent: 3\n")).toContain(belongs);
  expect(await messageFor("enabled: true\n")).not.toContain("did you mean");
});

test("all problems are reported at once, one per line, in the order of the file", async () => {
  const message = await messageFor(
    [
      "watchdog:",
      "  interval: 30",
      "  interval: fast",
      "merge:",
      "  union:",
      "    - '*.md'",
      "    - 5",
      "  regenerate:",
      "    package-lock.json: ''",
      "agents:",
      "  maxConcurrent: 0",
    ].join("\n"),
  );
  expect(message.split("\n").map((line) => line.split("; allowed:")[0])).toEqual([
    ".overseer/config.yaml:3: interval is there twice",
    '.overseer/config.yaml:3: watchdog.interval is "fast"',
    ".overseer/config.yaml:7: merge.union.1 is 5",
    '.overseer/config.yaml:9: merge.regenerate."package-lock.json" is ""',
    ".overseer/config.yaml:11: agents.maxConcurrent is 0",
  ]);
});

test("hundreds of problems do not fill the screen", async () => {
  const message = await messageFor(Array.from({ length: 300 }, (_, i) => `k${i}: 1`).join("\n"));
  expect(message.split("\n")).toHaveLength(21);
  expect(message).toEndWith("and 280 more");
});

test("an empty file, a file of comments and sections without lines are the defaults", async () => {
  for (const text of [
    "",
    "\n\n",
    "# nothing\n",
    "---\n",
    "\uFEFF",
    "agents:\nmerge:\n  # batch: 3\n",
    "{}",
  ]) {
    const config = await configOf(text);
    expect({ ...config, project: DEFAULT_CONFIG.project } as unknown).toEqual(DEFAULT_CONFIG);
  }
});

test("a byte order mark and CRLF change neither values nor lines", async () => {
  expect((await configOf("\uFEFFagents:\r\n  maxConcurrent: 3\r\n")).agents.maxConcurrent).toBe(3);
  expect(await messageFor("\uFEFFagents:\r\n  maxDepth: 3\r\n  maxConcurrent: x\r\n")).toContain("yaml:3: ");
});

test("what is not a mapping, not YAML or not text is refused with its place", async () => {
  const cases: [string | Uint8Array, string][] = [
    ["- a\n", "yaml:1: the file is a list; allowed: a mapping with the keys project, agents"],
    ["\nhello\n", 'yaml:2: the file is "hello"; allowed: a mapping'],
    ["agents: 5\n", "yaml:1: agents is 5; allowed: a mapping with the keys manifestPath"],
    ["agents:\n\tmaxDepth: 3\n", "yaml:2: Tabs are not allowed"],
    ["agents:\n  a: [1,\n", "yaml:3: "],
    ["agents:\n  maxDepth: 3\n  maxDepth: 3\n", "yaml:3: maxDepth is there twice; allowed: each key once"],
    ["agents:\n---\nagents:\n", "yaml:2: a second document begins; allowed: one"],
    ["merge:\n  verify: *none\n", "yaml:2: *none has no anchor"],
    ["merge:\n  verify: !secret x\n", "yaml:2: Unresolved tag: !secret"],
    ["merge: {<<: 5}\n", "yaml: Merge sources must be maps"],
    ["agents: !!set {x}\n", "yaml:1: agents is a value with a special tag"],
    ["agents: &a\n  maxDepth: *a\n", "yaml:2: agents.maxDepth is a mapping"],
    [`merge:\n  verify: "a\\0b"\n`, 'yaml:2: merge.verify is "a\\u0000b"'],
    [Uint8Array.of(0x61, 0x3a, 0x20, 0xff), "yaml: the file is not UTF-8 text"],
    ["#".repeat(70_000), "yaml: the file has 70000 bytes"],
  ];
  for (const [text, expected] of cases) expect(await messageFor(text)).toContain(expected);
});

test("too many aliases are refused before they are multiplied", async () => {
  const ten = (name: string) => Array.from({ length: 10 }, () => `*${name}`).join(",");
  const text = `project: &a [x]\nagents: &b [${ten("a")}]\nmerge: &c [${ten("b")}]\nsync: [${ten("c")}]\n`;
  expect(await messageFor(text)).toContain("Excessive alias count");
});

test("a control character in the file does not reach the terminal", async () => {
  const red = "\u001b[31m";
  for (const text of ['"\\e[31m": 1\n', `a: !${red} x\n`, `${red}x: 1\n${red}x: 2\n`]) {
    expect(await messageFor(text)).not.toMatch(/[^\P{Cc}\n]/u);
  }
});

test("one cause with many faults in one place is one line", async () => {
  const lines = (await messageFor("agents: [[[[\n")).split("\n");
  expect(lines).toEqual([...new Set(lines)]);
});

test("a fault behind an alias is shown where it is written", async () => {
  const message = await messageFor("watchdog: &w\n  restart: 3\n\nsupervise: *w\n");
  expect(message).toStartWith(".overseer/config.yaml:2: supervise.restart is not a known key");
});

test("the names of the prototype are unknown keys like any other", async () => {
  for (const name of ["__proto__", "constructor", "toString"]) {
    expect(await messageFor(`${name}:\n  x: 1\n`)).toContain(`yaml:1: ${name} is not a known key`);
    expect(await messageFor(`agents:\n  ${name}: 1\n`)).toContain(
      `yaml:2: agents.${name} is not a known key`,
    );
  }
  expect((await configOf("merge:\n  regenerate:\n    __proto__: x\n")).merge.regenerate).toEqual({});
  expect(({} as Record<string, unknown>).x).toBeUndefined();
});

test("anchors and merge keys work", async () => {
  const config = await configOf("watchdog: &w\n  interval: 7s\n  restart: 3\nsupervision: {}\n");
  expect([config.watchdog.interval, config.watchdog.restart]).toEqual([7_000, 3]);
  const merged = await configOf("merge: &m\n  union: &u ['*.md']\nproject:\n  checks: *u\n");
  expect(merged.project.checks).toEqual(["*.md"]);
  const backoff = await configOf("recovery:\n  backoff:\n    <<: {base: 1m}\n    max: 2m\n");
  expect(backoff.recovery.backoff).toEqual({ base: MINUTE, max: 2 * MINUTE });
});

test("what stands in the file's place is refused, and a missing folder is not", async () => {
  const root = folder();
  mkdirSync(join(root, ".overseer/config.yaml"));
  expect((await refusal(root)).message).toBe(".overseer/config.yaml: the file is not a regular file");
  const { config } = await load(join(root, "nowhere"));
  expect(config.project.name).toBe("nowhere");
  const odd = folder();
  rmSync(join(odd, ".overseer"), { recursive: true });
  writeFileSync(join(odd, ".overseer"), "");
  expect((await refusal(odd)).message).toContain("the file cannot be read: ENOTDIR");
});

test("flags go over the file, a flag that was not given does not, and a wrong one is not blamed on the file", async () => {
  const root = withFile("auto:\n  concurrency: 2\n  pollInterval: 1s\n");
  const flags = { "auto.concurrency": 5, "auto.pollInterval": undefined, "auto.drainTimeout": "2s" };
  const { config, entries } = await load(root, flags);
  expect(config.auto).toMatchObject({ concurrency: 5, pollInterval: 1_000, drainTimeout: 2_000 });
  const sources = Object.fromEntries(entries.map(({ key, source }) => [key, source]));
  expect([sources["auto.concurrency"], sources["auto.pollInterval"], sources["auto.poolTimeout"]]).toEqual([
    "flag",
    "file",
    "default",
  ]);
  const { message } = await refusal(root, { "auto.concurrency": "many", "auto.concurency": 1 });
  expect(message).toContain('flag: auto.concurrency is "many"; allowed: a whole number, 1 or more');
  expect(message).toContain("flag: auto.concurency is not a known key (did you mean auto.concurrency?)");
});

test("the canonical branch is looked up only when the file does not name it", async () => {
  const named = withFile("project:\n  canonicalBranch: develop\n");
  const never = () => Promise.reject(new Error("git was asked"));
  expect((await loadConfig(named, { canonicalBranch: never })).config.project.canonicalBranch).toBe(
    "develop",
  );
  const { config } = await loadConfig(folder(), { canonicalBranch: async () => "trunk" });
  expect(config.project.canonicalBranch).toBe("trunk");
});

const TEMPLATE = await Bun.file(join(import.meta.dir, "../templates/config.yaml")).text();
const COMMENTED_KEY = /^# (?= *[A-Za-z0-9]+:(?: |$))/;

test("the template as written sets the project's name and branch and nothing else", async () => {
  const text = renderConfigTemplate(TEMPLATE, { name: "my-repo", canonicalBranch: "trunk" });
  expect(parse(text)).toEqual({ project: { name: "my-repo", canonicalBranch: "trunk" } });
  expect((await configOf(text)) as unknown).toEqual(DEFAULT_CONFIG);
});

test("the template uncommented sets every key to its default and says its meaning", async () => {
  const rendered = renderConfigTemplate(TEMPLATE, { name: "my-repo", canonicalBranch: "trunk" });
  const text = rendered
    .split("\n")
    .map((line) => line.replace(COMMENTED_KEY, ""))
    .join("\n");
  const { config, entries } = await load(withFile(text));
  expect(config as unknown).toEqual(DEFAULT_CONFIG);
  for (const { key, source, meaning } of entries) {
    expect([key, source]).toEqual([key, "file"]);
    const name = key.split(".").at(-1);
    const lines = text.split("\n").filter((line) => line.trimStart().startsWith(`${name}: `));
    expect(lines.filter((line) => line.endsWith(` # ${meaning}`)).length).toBeGreaterThan(0);
  }
});

test("any folder and branch name survives the template", async () => {
  const strange = fc
    .string({ minLength: 1, unit: "binary" })
    .filter((s) => s.trim() !== "" && !s.includes("\0"));
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(strange, fc.constantFrom("1.0", "null", "a: b", "# x", "{{name}}", "$&")),
      async (name) => {
        const text = renderConfigTemplate(TEMPLATE, { name, canonicalBranch: "1.10" });
        const { project } = await configOf(text);
        expect(project).toEqual({ name, canonicalBranch: "1.10", checks: [] });
      },
    ),
    { numRuns: 60 },
  );
});

test("durations are one number and one unit", () => {
  const good = { "30s": 30_000, "15m": 900_000, "1h": 3_600_000, "500ms": 500, "0s": 0, "2d": 172_800_000 };
  for (const [text, ms] of Object.entries(good)) expect(parseDuration(text)).toBe(ms);
  const bad = [
    "",
    "30",
    "s",
    "1.5h",
    "-1s",
    " 1s",
    "1s ",
    "1 s",
    "1S",
    "1h30m",
    "1w",
    "1s\n",
    "99999999999999d",
  ];
  for (const text of bad) expect([text, parseDuration(text)]).toEqual([text, null]);
});

test("a duration in one unit, smaller than the next one, reads as it was written", () => {
  const units = { ms: 1_000, s: 60, m: 60, h: 24, d: 10_000 };
  const written = fc
    .constantFrom(...(Object.keys(units) as (keyof typeof units)[]))
    .chain((unit) => fc.integer({ min: 1, max: units[unit] - 1 }).map((n) => `${n}${unit}`));
  fc.assert(fc.property(written, (text) => expect(formatDuration(parseDuration(text) ?? -1)).toBe(text)));
});

test("a formatted duration has at most two units and is the truth rounded down", () => {
  fc.assert(
    fc.property(fc.nat({ max: 400 * 24 * HOUR }), (ms) => {
      const parts = formatDuration(ms).split(" ");
      expect(parts.length).toBeLessThanOrEqual(2);
      const sum = parts.reduce((total, part) => total + (parseDuration(part) ?? Number.NaN), 0);
      expect(sum).toBeLessThanOrEqual(ms);
      expect(ms - sum).toBeLessThan(Math.max(ms / 24, SECOND));
    }),
  );
});

test("durations read as a person would say them", () => {
  const examples: [number, string][] = [
    [0, "0s"],
    [-5, "0s"],
    [Number.NaN, "0s"],
    [0.5, "0s"],
    [999, "999ms"],
    [1_999, "1s"],
    [125_000, "2m 5s"],
    [3 * HOUR, "3h"],
    [3 * HOUR + 5 * SECOND, "3h"],
    [28 * HOUR, "1d 4h"],
  ];
  for (const [ms, text] of examples) expect(formatDuration(ms)).toBe(text);
});

test("the nearest name allows for slips and swapped letters, and does not guess wildly", () => {
  expect(nearest("intreval", ["interval", "restart"])).toBe("interval");
  expect(nearest("STALETHRESHOLD", ["staleThreshold"])).toBe("staleThreshold");
  expect(nearest("ad", ["bob", "ada"])).toBe("ada");
  expect(nearest("Ada", ["ada", "Ada"])).toBe("Ada");
  expect(nearest("x", ["y"])).toBeNull();
  expect(nearest("banana", ["interval", "restart"])).toBeNull();
  expect(nearest("", ["a", "abc"])).toBeNull();
  expect(nearest("ada", [])).toBeNull();
  expect(nearestFew("buidler", ["bob", "builders", "builder", "guilder"], 2)).toEqual([
    "builder",
    "builders",
  ]);
});

test("a member is nearest to itself, and near is mutual", () => {
  const words = fc.array(fc.string({ maxLength: 12 }), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(words, fc.nat(), (names, at) => {
      const name = names[at % names.length] ?? "";
      expect(nearest(name, names)).toBe(name);
      for (const other of names) {
        expect(nearest(name, [other]) === null).toBe(nearest(other, [name]) === null);
      }
      expect(nearestFew(name, names, 3).length).toBeLessThanOrEqual(3);
    }),
  );
});

test("the project is named after its folder", async () => {
  const root = folder();
  expect((await load(`${root}/`)).config.project.name).toBe(basename(root));
  expect((await load(join(root, "..", basename(root)))).config.project.name).toBe(basename(root));
});
