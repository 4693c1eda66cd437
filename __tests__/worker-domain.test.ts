import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  type FinishedTask,
  grow,
  historyLines,
  historySection,
  type Identity,
} from "../src/domain/identity.ts";
import { definitionFor, isReadOnly, readManifest } from "../src/domain/manifest.ts";
import { inherited, paneEnvironment } from "../src/domain/pane-environment.ts";
import { type Holder, isWithin, overlaps, scopeConflict, toScope } from "../src/domain/scope.ts";
import { explainScreen, hasDraft } from "../src/domain/screen.ts";
import { firstPrompt, hasReached, resumePrompt, SPAWN_STEPS, spawnPause } from "../src/domain/spawn.ts";
import { renderTemplate } from "../src/domain/template.ts";

describe("a file scope", () => {
  test.each([
    ["src/login", "src/login"],
    ["src/login/", "src/login"],
    ["./src//login", "src/login"],
    ["././a.ts", "a.ts"],
    ["src/./login", "src/login"],
    ["src/.", "src"],
    ["docs/*.md", "docs/*.md"],
    ["**", "**"],
    [".github/workflows", ".github/workflows"],
    ["..a/b..", "..a/b.."],
    ["a file with spaces", "a file with spaces"],
  ])("%p is kept as %p", (text, scope) => {
    expect(toScope(text)).toBe(scope);
  });

  test.each(["", ".", "./", "/", "/etc", "//etc", "..", "../other", "src/../../x", "src/..", "a\0b", "a\nb"])(
    "%p is none inside the repository",
    (text) => {
      expect(() => toScope(text)).toThrow(
        expect.objectContaining({ code: "usage", hint: expect.any(String) }) as Error,
      );
    },
  );

  test.each([
    ["src", "src", true],
    ["src", "src/a.ts", true],
    ["src", "srcs", false],
    ["src/a", "src/ab", false],
    ["src/a.ts", "src/b.ts", false],
    ["src/*.ts", "src/a.ts", true],
    ["src/*.ts", "src", true],
    ["src/*.ts", "docs/a.md", false],
    // By literal prefix only: what a glob may come to match is not worked out.
    ["src/*.ts", "src/a.md", true],
    ["src/lo*", "src/login", true],
    ["src/lo*", "src/signup", false],
    ["src/lo*", "src/l", false],
    ["src/a*", "src/ab*", true],
    ["src/a*", "src/b*", false],
    ["**", "anything/at/all", true],
    ["{src,docs}/a", "test", true],
    ["src/[ab].ts", "src/c.ts", true],
    ["src/?.ts", "srcs", false],
  ])("%p and %p overlap: %p", (one, other, isShared) => {
    expect([overlaps(one, other), overlaps(other, one)]).toEqual([isShared, isShared]);
  });

  test.each([
    ["src", "src", true],
    ["src/a.ts", "src", true],
    ["src/deep/*.ts", "src", true],
    ["src*", "src", false],
    ["srcs", "src", false],
    ["src", "src/a.ts", false],
    ["src/*", "src/*", true],
    ["src/a*", "src/*", false],
    ["**", "src", false],
  ])("%p lies within %p: %p", (scope, around, isInside) => {
    expect(isWithin(scope, around)).toBe(isInside);
  });

  const part = fc.string({ unit: fc.constantFrom("a", "b", "*", "?", "["), minLength: 1, maxLength: 3 });
  const scope = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
  const literal = fc
    .array(fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 2 }), {
      minLength: 1,
      maxLength: 4,
    })
    .map((parts) => parts.join("/"));

  test("overlaps with itself, and with another as that one with it", () => {
    fc.assert(
      fc.property(scope, scope, (one, other) => {
        expect(overlaps(one, one)).toBe(true);
        expect(overlaps(one, other)).toBe(overlaps(other, one));
      }),
      { numRuns: 1_000 },
    );
  });

  test("within another overlaps with it, and with whatever lies within itself", () => {
    fc.assert(
      fc.property(scope, literal, literal, (inner, folder, outer) => {
        if (isWithin(inner, folder)) expect(overlaps(inner, folder)).toBe(true);
        if (isWithin(inner, folder) && isWithin(folder, outer)) expect(isWithin(inner, outer)).toBe(true);
        expect(isWithin(`${folder}/${inner}`, folder)).toBe(true);
        expect(isWithin(inner, inner)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });

  test("two that do not overlap have no file in common", () => {
    const file = literal;
    const covers = (held: string, path: string) =>
      new Bun.Glob(held).match(path) || path.startsWith(`${held}/`);
    const plain = fc
      .array(fc.string({ unit: fc.constantFrom("a", "b", "*", "?"), minLength: 1, maxLength: 3 }), {
        minLength: 1,
        maxLength: 3,
      })
      .map((parts) => parts.join("/"));
    fc.assert(
      fc.property(plain, plain, file, (one, other, path) => {
        if (covers(one, path) && covers(other, path)) expect(overlaps(one, other)).toBe(true);
      }),
      { numRuns: 3_000 },
    );
  });

  test("once kept is kept the same, and names the same file as what was typed", () => {
    const typed = fc
      .array(fc.constantFrom("a", "b", ".", "", "src", "*.ts"), { minLength: 1, maxLength: 5 })
      .map((parts) => parts.join("/"));
    fc.assert(
      fc.property(typed, (text) => {
        const names = text.split("/").filter((name) => name !== "" && name !== ".");
        if (text.startsWith("/") || names.length === 0) {
          expect(() => toScope(text)).toThrow();
          return;
        }
        expect(toScope(text)).toBe(names.join("/"));
        expect(toScope(toScope(text))).toBe(toScope(text));
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a conflict of scopes", () => {
  const holder = (name: string, parent: string | null, ...fileScope: string[]): Holder => ({
    name,
    parent,
    fileScope,
  });
  const lead = holder("lead", "orchestrator", "src");
  const ada = holder("ada", "lead", "src/a");
  const kim = holder("kim", "ada", "src/a/x.ts");

  test.each<[string, Holder, Holder[], string | null]>([
    ["with a stranger", holder("bob", "orchestrator", "src/a/b.ts"), [lead, ada], "lead"],
    ["with a brother", holder("bob", "lead", "src/a/b.ts"), [lead, ada], "ada"],
    ["with a brother's child", holder("bob", "lead", "src/a/x.ts"), [lead, kim, ada], "kim"],
    ["not with a parent", ada, [lead], null],
    ["not with a grandparent", kim, [lead, ada], null],
    ["not with a child or a grandchild", lead, [ada, kim], null],
    ["not with its own former self", ada, [holder("ada", "lead", "src/a")], null],
    ["not between those who work for the same person", holder("bob", "orchestrator", "docs"), [lead], null],
    ["not with somebody who holds nothing", holder("bob", null, "src"), [holder("eve", null)], null],
    ["not for somebody who wants nothing", holder("bob", null), [lead], null],
  ])("is %s", (_, candidate, holders, name) => {
    expect(scopeConflict(candidate, holders)?.holder ?? null).toBe(name);
  });

  test("names what is held, not what was wanted", () => {
    const wanting = holder("bob", null, "docs", "src/a/b.ts");
    expect(scopeConflict(wanting, [holder("eve", null, "test", "src/a")])).toEqual({
      holder: "eve",
      scope: "src/a",
    });
  });

  test("a circle of parents is no endless search", () => {
    const circle = [holder("a", "b", "src"), holder("b", "a", "src")];
    expect(scopeConflict(holder("c", "a", "src"), circle)).toBeNull();
    expect(scopeConflict(holder("d", null, "src"), circle)).toMatchObject({ holder: "a" });
  });
});

describe("a manifest", () => {
  const builder = { file: "builder.md", tools: ["Bash"], capabilities: ["builder"] };
  const manifest = (agents: Record<string, unknown>, capabilityIndex: Record<string, unknown>) => ({
    version: "1.0",
    agents,
    capabilityIndex,
  });
  const plain = manifest({ builder }, { builder: ["builder"] });

  test("fills in what a definition leaves out", () => {
    const reading = readManifest(plain);
    if (reading.kind !== "valid") throw new Error(reading.problems.join("; "));
    const definition = definitionFor(reading.manifest, "builder");
    expect(definition).toEqual({ ...builder, model: null, canSpawn: false, constraints: [] });
    expect(definition && isReadOnly(definition)).toBe(false);
  });

  test("serves a capability by the first definition that the index names, and no other", () => {
    const scout = { ...builder, file: "scout.md", capabilities: ["scout"], constraints: ["read-only"] };
    const both = { ...builder, file: "both.md", capabilities: ["scout", "builder"] };
    const index = { scout: ["scout", "both"], builder: ["both", "builder"] };
    const reading = readManifest(manifest({ builder, scout, both }, index));
    if (reading.kind !== "valid") throw new Error(reading.problems.join("; "));
    expect(definitionFor(reading.manifest, "builder")?.file).toBe("both.md");
    const found = definitionFor(reading.manifest, "scout");
    expect(found && isReadOnly(found)).toBe(true);
    for (const unknown of ["lead", "toString", "constructor", "__proto__", ""])
      expect(definitionFor(reading.manifest, unknown)).toBeNull();
  });

  test.each<[string, unknown, RegExp]>([
    ["nothing", null, /^it: /],
    ["a list", [], /^it: /],
    ["no version", { agents: {}, capabilityIndex: {} }, /^version: /],
    ["a key that nobody knows", { ...plain, extra: 1 }, /extra/],
    ["a definition without a file", manifest({ b: {} }, {}), /^agents\.b\.file: /],
    [
      "a file elsewhere",
      manifest({ b: { ...builder, file: "../b.md" } }, {}),
      /^agents\.b\.file: is not the name of a Markdown file/,
    ],
    ["no capability", manifest({ b: { ...builder, capabilities: [] } }, {}), /^agents\.b\.capabilities: /],
    [
      "a capability that is no word",
      manifest({ b: { ...builder, capabilities: ["A b"] } }, {}),
      /^agents\.b\.capabilities\.0: is not a capability/,
    ],
    [
      "an index that names nobody",
      manifest({ builder }, { builder: ["builder", "ghost"] }),
      /^capabilityIndex\.builder: ghost has no such capability/,
    ],
    [
      "an index that names somebody for what it cannot do",
      manifest({ builder }, { builder: ["builder"], scout: ["builder"] }),
      /^capabilityIndex\.scout: builder has no such capability/,
    ],
    [
      "an index that leaves one out",
      manifest({ builder }, {}),
      /^capabilityIndex\.builder: builder is missing/,
    ],
    [
      "an index that names what every object has",
      manifest({ builder }, { builder: ["builder", "constructor"] }),
      /^capabilityIndex\.builder: constructor has no such capability/,
    ],
    [
      "a capability that every object has",
      manifest({ b: { ...builder, capabilities: ["constructor"] } }, {}),
      /^capabilityIndex\.constructor: b is missing/,
    ],
  ])("with %s is invalid, and says where", (_, raw, says) => {
    const reading = readManifest(raw);
    if (reading.kind === "valid") throw new Error("it counts as valid");
    expect(reading.problems.join("\n")).toMatch(says);
  });
});

describe("a worker's environment", () => {
  const identity = {
    name: "ada",
    token: "tok-1",
    root: "/repo",
    programFolder: "/opt/overseer/bin",
    excludesFile: null,
    pushSettings: [],
  };
  const paneOf = (caller: Record<string, string | undefined>, more: Partial<typeof identity> = {}) =>
    paneEnvironment(caller, { ...identity, ...more });

  /** What git reads from an environment. */
  function gitConfig(env: Readonly<Record<string, string>>): Record<string, string | undefined> {
    const count = Number(env.GIT_CONFIG_COUNT);
    const pairs = Array.from({ length: count }, (_, at) => [
      env[`GIT_CONFIG_KEY_${at}`] ?? `key ${at} is missing`,
      env[`GIT_CONFIG_VALUE_${at}`],
    ]);
    return Object.fromEntries(pairs);
  }

  test.each([
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
    "AWS_PROFILE",
    "DISABLE_AUTOUPDATER",
    "HOME",
    "HTTPS_PROXY",
    "LANG",
    "SSH_AUTH_SOCK",
    "GITHUB_TOKEN",
    "MY_TMUX",
  ])("has %s as the caller has it", (name) => {
    expect(paneOf({ [name]: "value" })[name]).toBe("value");
    expect(inherited({ [name]: "value" })).toEqual({ [name]: "value" });
  });

  test.each([
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_TASK_LIST_ID",
    "CLAUDE_CODE_AGENT_NAME",
    "CLAUDE_CODE_TEAM_NAME",
    "CLAUDE_CODE_PARENT_SESSION_ID",
    "CLAUDE_PID",
    "CLAUDE_EFFORT",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_ENV_FILE",
    "AI_AGENT",
    "TMUX",
    "TMUX_PANE",
    "TMUX_TMPDIR",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_AUTHOR_DATE",
    "GIT_CONFIG_PARAMETERS",
    "OVERSEER_DEPTH",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "COLUMNS",
    "LINES",
  ])("has nothing of the caller's %s", (name) => {
    expect(paneOf({ [name]: "the caller's" })).not.toHaveProperty([name]);
    expect(inherited({ [name]: "the caller's" })).toEqual({});
  });

  test("names the worker, whoever the caller is", () => {
    const caller = {
      OVERSEER_AGENT_NAME: "lead",
      OVERSEER_TOKEN: "tok-0",
      OVERSEER_ROOT: "/elsewhere",
      TERM: "dumb",
    };
    expect(paneOf(caller)).toMatchObject({
      OVERSEER_AGENT_NAME: "ada",
      OVERSEER_TOKEN: "tok-1",
      OVERSEER_ROOT: "/repo",
      TERM: "screen-256color",
    });
  });

  test("finds the program that slung it before any other", () => {
    expect(paneOf({ PATH: "/usr/bin:/bin" }).PATH).toBe("/opt/overseer/bin:/usr/bin:/bin");
    expect(paneOf({}).PATH).toMatch(/^\/opt\/overseer\/bin:.*\/usr\/bin/);
  });

  test("makes git unable to push, and does not let the caller's settings in", () => {
    const caller = {
      GIT_CONFIG_COUNT: "2",
      GIT_CONFIG_KEY_0: "core.hooksPath",
      GIT_CONFIG_VALUE_0: "/hooks",
      GIT_CONFIG_KEY_1: "push.default",
      GIT_CONFIG_VALUE_1: "matching",
    };
    const env = paneOf(caller);
    expect(gitConfig(env)).toEqual({ "url.a-worker-does-not-push::.pushInsteadOf": "" });
    expect(
      Object.keys(env)
        .filter((name) => name.startsWith("GIT_"))
        .sort(),
    ).toEqual(["GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"]);
  });

  test("blocks also what the user has configured for pushes alone, and leaves fetch as it is", () => {
    const blocks = (...pushSettings: [string, string][]) => {
      const env = paneEnvironment({}, { ...identity, pushSettings });
      const pairs = Array.from({ length: Number(env.GIT_CONFIG_COUNT) }, (_, at) => [
        env[`GIT_CONFIG_KEY_${at}`],
        env[`GIT_CONFIG_VALUE_${at}`],
      ]);
      return pairs.slice(1);
    };
    const url: [string, string] = ["remote.origin.url", "/srv/shop.git"];
    const nowhere = "url.a-worker-does-not-push::.insteadOf";
    expect(blocks(url)).toEqual([]);
    expect(blocks(url, ["remote.origin.pushurl", "git@example.com:shop.git"])).toEqual([
      [nowhere, "git@example.com:shop.git"],
    ]);
    // The address of fetch, or the beginning of it: a rewriting would hit both.
    for (const same of ["/srv/shop.git", "/srv/shop"]) {
      expect(blocks(url, ["remote.origin.pushurl", same])).toEqual([
        ["remote.origin.receivepack", "git-remote-a-worker-does-not-push"],
      ]);
    }
    const web = "https://example.com/shop.git";
    expect(blocks(["remote.a.b.url", web], ["remote.a.b.pushurl", web])).toEqual([[nowhere, web]]);
    expect(blocks(url, ["url.git@example.com:.pushinsteadof", "https://example.com/"])).toEqual([
      ["url.a-worker-does-not-push::.pushInsteadOf", "/srv/shop.git"],
    ]);
    // A lead's own pane has this one from us.
    expect(blocks(url, ["url.a-worker-does-not-push::.pushinsteadof", ""])).toEqual([]);
  });

  test("tells git what to overlook, where there is something", () => {
    const env = paneEnvironment({}, { ...identity, excludesFile: "/repo/.overseer/agents/ada/excludes" });
    expect(gitConfig(env)["core.excludesFile"]).toBe("/repo/.overseer/agents/ada/excludes");
  });

  const person = { GIT_AUTHOR_NAME: "Ada L.", GIT_AUTHOR_EMAIL: "ada@example.invalid" };

  test("passes the caller's name for commits on as configuration", () => {
    expect(gitConfig(paneOf(person))).toMatchObject({
      "user.name": "Ada L.",
      "user.email": "ada@example.invalid",
    });
    expect(gitConfig(paneOf({ GIT_AUTHOR_EMAIL: "a@b.invalid" }))).not.toHaveProperty(["user.name"]);
    expect(gitConfig(paneOf({ GIT_AUTHOR_NAME: "" }))).not.toHaveProperty(["user.name"]);
  });

  test("passes that name on to a worker's own workers, too", () => {
    const child = paneOf(paneOf(person, { name: "lead" }), { name: "ada", token: "tok-2" });
    expect(gitConfig(child)).toMatchObject({
      "user.name": "Ada L.",
      "user.email": "ada@example.invalid",
    });
    expect(child).toMatchObject({ OVERSEER_AGENT_NAME: "ada", OVERSEER_TOKEN: "tok-2" });
  });

  test("has what has a value, and nothing that is undefined", () => {
    expect(inherited({ EMPTY: "", UNDEFINED: undefined, PATH: "/bin" })).toEqual({ EMPTY: "", PATH: "/bin" });
    expect(Object.values(paneOf({ UNDEFINED: undefined }))).not.toContain(undefined);
  });

  test("is the caller's for whatever it neither drops nor sets", () => {
    const name = fc.string({ unit: fc.constantFrom(..."ABCX_1"), minLength: 2, maxLength: 12 });
    fc.assert(
      fc.property(fc.dictionary(name, fc.string()), (caller) => {
        expect(paneOf(caller)).toMatchObject(caller);
      }),
      { numRuns: 300 },
    );
  });
});

describe("a template", () => {
  test.each<[string, string, Record<string, string>, string]>([
    ["a text for its key", "I am {{name}}.", { name: "ada" }, "I am ada.\n"],
    ["a key twice", "{{a}}{{a}}", { a: "x" }, "xx\n"],
    ["a section whose text is there", "a\n{{#b}}\nB: {{b}}\n{{/b}}\nc", { b: "x" }, "a\nB: x\nc\n"],
    ["no section whose text is empty", "a\n{{#b}}\nB: {{b}}\n{{/b}}\nc", { b: "" }, "a\nc\n"],
    ["sections in a row", "{{#a}}\n1 {{a}}\n{{/a}}\n{{#b}}\n2 {{b}}\n{{/b}}\n", { a: "", b: "x" }, "2 x\n"],
    ["no hole where a section was", "a\n\n{{#b}}\nB\n{{/b}}\n\nc", { b: "" }, "a\n\nc\n"],
    ["a dollar as it is", "{{a}}", { a: "$& $1 $$ $`" }, "$& $1 $$ $`\n"],
  ])("puts in %s", (_, template, texts, rendered) => {
    expect(renderTemplate(template, texts)).toBe(rendered);
  });

  test.each(["{{lost}}", "{{#lost}}\nx\n{{/lost}}\n", "{{toString}}", "{{constructor}}"])(
    "that names what nobody gives is a mistake: %p",
    (template) => {
      expect(() => renderTemplate(template, { name: "ada" })).toThrow(/which nobody gives/);
    },
  );

  test("takes braces inside a text for nothing but text", () => {
    const tricky = fc
      .array(
        fc.constantFrom("{{name}}", "{{#b}}", "{{/b}}", "{{lost}}", "{{", "}}", "{", "a", "$1", "$&", "\n"),
        { maxLength: 8 },
      )
      .map((parts) => parts.join(""))
      .filter((text) => text.trim() === text && text !== "" && !text.includes("\n\n\n"));
    fc.assert(
      fc.property(tricky, tricky, (one, two) => {
        const rendered = renderTemplate("<{{a}}>\n{{#b}}\n<{{b}}>\n{{/b}}\n<{{a}}>", {
          a: one,
          b: two,
          name: "SHOULD NOT BE SEEN",
        });
        expect(rendered).toBe(`<${one}>\n<${two}>\n<${one}>\n`);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("the steps of a spawn", () => {
  test("are reached in order, each with all before it", () => {
    for (const [at, step] of SPAWN_STEPS.entries()) {
      const reached = SPAWN_STEPS.filter((milestone) => hasReached(step, milestone));
      expect(reached).toEqual(SPAWN_STEPS.slice(0, at + 1));
    }
  });

  test.each([undefined, null, "", "launched", 3, {}, "toString"])("%p is none of them", (step) => {
    expect(SPAWN_STEPS.filter((milestone) => hasReached(step, milestone))).toEqual([]);
  });
});

describe("the pause after failed spawns", () => {
  const NOW = 1_000_000_000;
  const failed = (count: number, at = NOW) => Array.from({ length: count }, () => ({ isFailure: true, at }));
  const good = { isFailure: false, at: NOW };

  test.each([
    [0, 0],
    [1, 0],
    [2, 0],
    [3, 5_000],
    [4, 10_000],
    [5, 20_000],
    [8, 160_000],
    [9, 300_000],
    [10, 300_000],
    [2_000, 300_000],
  ])("after %p failures in a row is %p ms", (count, pause) => {
    expect(spawnPause(failed(count), NOW)).toBe(pause);
  });

  test("counts from the latest failure, and a success ends it", () => {
    expect(spawnPause(failed(3, NOW - 4_000), NOW)).toBe(1_000);
    expect(spawnPause(failed(3, NOW - 5_000), NOW)).toBe(0);
    expect(spawnPause([good, ...failed(9)], NOW)).toBe(0);
    expect(spawnPause([...failed(2), good, ...failed(9)], NOW)).toBe(0);
    expect(spawnPause([...failed(3), good, ...failed(9)], NOW)).toBe(5_000);
  });

  test("forgets what is half an hour old", () => {
    const old = failed(9, NOW - 30 * 60_000);
    expect(spawnPause(old, NOW)).toBe(0);
    expect(spawnPause([...failed(2), ...old], NOW)).toBe(0);
    expect(spawnPause([...failed(3), ...old], NOW)).toBe(5_000);
    expect(spawnPause([...failed(3), ...failed(6, NOW - 29 * 60_000)], NOW)).toBe(300_000);
  });

  /** Newest first, the newest up to ten minutes in the future: clocks are set back. */
  const outcomes = fc
    .array(fc.record({ isFailure: fc.boolean(), at: fc.integer({ min: -3_600_000, max: 600_000 }) }), {
      maxLength: 12,
    })
    .map((all) => all.toSorted((a, b) => b.at - a.at).map((one) => ({ ...one, at: NOW + one.at })));

  test("is never negative, never above five minutes, and none before three failures", () => {
    fc.assert(
      fc.property(outcomes, (all) => {
        const pause = spawnPause(all, NOW);
        expect(pause).toBeGreaterThanOrEqual(0);
        expect(pause).toBeLessThanOrEqual(300_000);
        if (all.slice(0, 3).filter(({ isFailure }) => isFailure).length < 3) expect(pause).toBe(0);
      }),
      { numRuns: 1_000 },
    );
  });

  test("gets shorter while time passes, and longer with one more failure", () => {
    fc.assert(
      fc.property(outcomes, fc.nat({ max: 3_600_000 }), (all, later) => {
        const past = all.filter(({ at }) => at <= NOW);
        const pause = spawnPause(past, NOW);
        expect(spawnPause(past, NOW + later)).toBeLessThanOrEqual(Math.max(0, pause));
        const oneMore = spawnPause([{ isFailure: true, at: NOW }, ...past], NOW);
        expect(oneMore).toBeGreaterThanOrEqual(pause);
      }),
      { numRuns: 1_000 },
    );
  });

  test("is over once it was waited for", () => {
    fc.assert(
      fc.property(outcomes, (all) => {
        const past = all.filter(({ at }) => at <= NOW);
        expect(spawnPause(past, NOW + spawnPause(past, NOW))).toBe(0);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a first prompt", () => {
  const ada = { name: "ada", capability: "builder", taskId: "t-1", title: "Add a form" };

  test("says who, what and to begin; one that was interrupted is told to go on", () => {
    expect(firstPrompt(ada)).toStartWith("You are ada, a builder. Your task is t-1: Add a form. ");
    expect(resumePrompt(ada)).toStartWith(
      "You are ada, a builder, and were interrupted at t-1: Add a form. ",
    );
  });

  test("is one line without control characters, however the title looks", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 500 }), (title) => {
        for (const prompt of [firstPrompt({ ...ada, title }), resumePrompt({ ...ada, title })]) {
          expect(prompt).not.toMatch(/\p{Cc}/u);
          expect(prompt.length).toBeLessThan(400);
        }
      }),
      { numRuns: 500 },
    );
  });
});

test.each<[string, RegExp | null]>([
  ["Do you trust the files in this folder?\n ❯ 1. Yes", /trust this folder/],
  ["Is this a project you trust this folder ...", /trust this folder/],
  ["Select login method:\n ❯ 1. Claude account", /not logged in/],
  ["Invalid API key · Please run /login", /not logged in/],
  ["Detected a custom API key in your environment", /asks about the API key/],
  ['> Try "fix the tests"', null],
  ["", null],
])("the screen %p is explained", (screen, why) => {
  const explained = explainScreen(screen, "/repo");
  if (why === null) {
    expect(explained).toBeNull();
    return;
  }
  expect(explained?.why).toMatch(why);
  expect(explained?.hint).toContain("start claude once in /repo");
});

const RULE = "─".repeat(20);

test.each([
  [`● Done.\n${RULE}\n❯ \n${RULE}\n  don't ask on`, false],
  [`● Done.\n${RULE}\n❯\u00a0\n${RULE}`, false],
  [`❯ an earlier prompt\n● Done.\n${RULE}\n❯ \n${RULE}`, false],
  ["● Done.\n> ", false],
  [`${RULE}\n❯ half a\n${RULE}`, true],
  [`${RULE}\n❯ \n  a second line\n${RULE}\n  don't ask on`, true],
  ["Do you want to proceed?\n❯ 1. Yes\n  2. No", true],
  ["● Done.", true],
  ["", true],
])("on the screen %p a draft may stand: %p", (screen, isThere) => {
  expect(hasDraft(screen)).toBe(isThere);
});

describe("an identity", () => {
  const nobody: Identity = {
    name: "ada",
    capability: "builder",
    createdAt: "2026-01-01T00:00:00.000Z",
    sessionsCompleted: 0,
    recentTasks: [],
  };
  const finished = (n: number, more: Partial<FinishedTask> = {}): FinishedTask => ({
    sessionId: `ses-${n}`,
    taskId: `t-${n}`,
    title: `Title ${n}`,
    summary: `Did ${n}.`,
    completedAt: "2026-01-02T00:00:00.000Z",
    branch: `overseer/ada/t-${n}`,
    files: ["src/a.ts"],
    ...more,
  });
  const after = (count: number) =>
    Array.from({ length: count }, (_, n) => finished(n + 1)).reduce(grow, nobody);

  test("grows by one with each finished session, and only once by the same", () => {
    const once = grow(nobody, finished(1));
    expect(once).toMatchObject({ sessionsCompleted: 1, recentTasks: [{ taskId: "t-1" }] });
    expect(grow(once, finished(1, { summary: "again" }))).toEqual(once);
    expect(nobody.recentTasks).toEqual([]);
  });

  test("keeps the last twenty tasks and twenty files of each, and counts them all", () => {
    const long = after(25);
    expect(long.sessionsCompleted).toBe(25);
    expect(long.recentTasks.map(({ taskId }) => taskId)).toEqual(
      Array.from({ length: 20 }, (_, n) => `t-${n + 6}`),
    );
    const files = Array.from({ length: 30 }, (_, n) => `f${n}`);
    expect(grow(nobody, finished(1, { files })).recentTasks[0]?.files).toEqual(files.slice(0, 20));
  });

  test("tells its last five tasks in a line each, the newest last", () => {
    expect(historyLines(nobody)).toBe("");
    expect(historyLines(after(7)).split("\n")).toEqual(
      [3, 4, 5, 6, 7].map((n) => `- t-${n}: Title ${n}. Did ${n}.`),
    );
    expect(historyLines(grow(nobody, finished(1, { summary: "" })))).toBe("- t-1: Title 1.");
  });

  test("has a section for each task in its work history", () => {
    expect(historySection(finished(1))).toBe(
      "\n## 2026-01-02T00:00:00.000Z t-1: Title 1\n\nDid 1.\n\nBranch: overseer/ada/t-1\n\n- src/a.ts\n",
    );
    expect(historySection(finished(1, { branch: null, files: [] }))).toBe(
      "\n## 2026-01-02T00:00:00.000Z t-1: Title 1\n\nDid 1.\n",
    );
  });
});
