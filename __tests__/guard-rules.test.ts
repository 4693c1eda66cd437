import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join, normalize } from "node:path";
import fc from "fast-check";
import { judge, outsideScope } from "../src/domain/guard.ts";
import type { Denial, GuardFacts, Place } from "../src/domain/guard-facts.ts";
import { isInScope } from "../src/domain/scope.ts";
import { readShell } from "../src/domain/shell.ts";
import { commandsIn } from "../src/domain/shell-wrappers.ts";

const ROOT = "/home/kim/shop";
const WORKTREE = `${ROOT}/.overseer/worktrees/ada`;
const ROLES: Record<string, Partial<GuardFacts>> = {
  builder: {},
  merger: {},
  lead: { canSpawn: true },
  scout: { isReadOnly: true },
  reviewer: { isReadOnly: true },
};

function factsOf(role: string, more: Partial<GuardFacts> = {}): GuardFacts {
  return {
    name: "ada",
    capability: role,
    parent: "orchestrator",
    root: ROOT,
    worktree: WORKTREE,
    branch: "overseer/ada/t-1",
    canonicalBranch: "main",
    fileScope: [],
    isReadOnly: false,
    canSpawn: false,
    ours: [".claude/CLAUDE.md", ".claude/.gitignore"],
    ...ROLES[role],
    ...more,
  };
}

const PLACE: Place = {
  cwd: WORKTREE,
  variables: { HOME: "/home/kim", TMPDIR: "/var/folders/x", PWD: WORKTREE, OVERSEER_ROOT: ROOT },
  temp: ["/tmp", "/var/tmp", "/var/folders/x"],
  resolve: (path) => normalize(path).replace(/(.)\/$/, "$1"),
};

interface Line {
  role: string;
  text: string;
}

function corpus(file: string): Line[] {
  let role = "builder";
  const lines: Line[] = [];
  for (const line of readFileSync(join(import.meta.dir, "corpus", file), "utf8").split("\n")) {
    const [, named] = /^\[(\w+)\]$/.exec(line) ?? [];
    if (named !== undefined) role = named;
    else if (line !== "" && !(lines.length === 0 && line.startsWith("# "))) lines.push({ role, text: line });
  }
  return lines;
}

function judged({ role, text }: Line): Denial | null {
  const call = text.replaceAll("␤", "\n").replaceAll("{root}", ROOT).replaceAll("{worktree}", WORKTREE);
  const [, tool, file] = /^(Write|Edit|MultiEdit|NotebookEdit|Read): ?(.*)$/.exec(call) ?? [];
  if (tool === undefined) return judge("Bash", { command: call }, factsOf(role), PLACE);
  const input = tool === "NotebookEdit" ? { notebook_path: file } : { file_path: file };
  return judge(tool, input, factsOf(role), PLACE);
}

describe("the guard", () => {
  test("hinders nothing of a corpus of ordinary work", () => {
    const lines = corpus("allowed.txt");
    expect(lines.length).toBeGreaterThanOrEqual(200);
    const hindered = lines.flatMap((line) => {
      const denial = judged(line);
      return denial ? [`${line.role}: ${line.text} -> ${denial.rule}: ${denial.reason}`] : [];
    });
    expect(hindered).toEqual([]);
  });

  test("denies a corpus of what is forbidden, by the rule that says so", () => {
    const lines = corpus("denied.txt");
    expect(lines.length).toBeGreaterThanOrEqual(80);
    const wrong = lines.flatMap(({ role, text }) => {
      const [, rule, call = ""] = /^(\S+) \| (.*)$/.exec(text) ?? [];
      const denial = judged({ role, text: call });
      return denial?.rule === rule ? [] : [`${role}: ${text} -> ${denial?.rule ?? "allowed"}`];
    });
    expect(wrong).toEqual([]);
  });

  test("gives a reason that says what to do instead", () => {
    const instead =
      /mail send|Commit to your branch|Your copy is|Stay on your branch|Change files there|Name the files|Use the commands|ask orchestrator|task close|Tell orchestrator|Give the path|by its number/;
    const mute = corpus("denied.txt").flatMap(({ role, text }) => {
      const reason = judged({ role, text: text.slice(text.indexOf("|") + 2) })?.reason ?? "";
      return instead.test(reason) && reason.length < 500 ? [] : [`${text} -> ${reason}`];
    });
    expect(mute).toEqual([]);
  });

  test("names the copy in the worktree of a file that was looked for in the main checkout", () => {
    const denial = judge("Edit", { file_path: `${ROOT}/src/a.ts` }, factsOf("builder"), PLACE);
    expect(denial?.reason).toContain(`Your copy is ${WORKTREE}/src/a.ts`);
  });

  test("a scratch folder that holds the repository is not everybody's", () => {
    const facts = factsOf("builder", { root: "/tmp/shop", worktree: "/tmp/shop/.overseer/worktrees/ada" });
    const place = { ...PLACE, cwd: facts.worktree };
    const rule = (command: string) => judge("Bash", { command }, facts, place)?.rule ?? null;
    expect(rule("rm -rf /tmp/shop")).toBe("delete");
    expect(rule("rm -rf /tmp/*")).toBe("delete");
    expect(rule("rm -rf /tmp/s*")).toBe("delete");
    expect(rule("rm -rf /tmp/shop/src")).toBe("delete");
    expect(rule("rm -rf /tmp/shop/.overseer/worktrees/bob")).toBe("delete");
    expect(rule("rm -rf /tmp/other /tmp/x*")).toBeNull();
    expect(rule("git -C /tmp/shop commit -am x")).toBe("canonical");
    expect(rule("rm -rf dist /tmp/shop/.overseer/worktrees/ada/build")).toBeNull();
  });

  test("a circle of links is not written to", () => {
    const denial = judge("Write", { file_path: "a" }, factsOf("builder"), { ...PLACE, resolve: () => null });
    expect(denial?.rule).toBe("blind");
  });

  test("the worktrees may be outside of the repository", () => {
    const facts = factsOf("builder", { worktree: "/home/kim/trees/ada" });
    const place = { ...PLACE, cwd: facts.worktree };
    const rule = (file: string) => judge("Write", { file_path: file }, facts, place)?.rule ?? null;
    expect(rule("src/a.ts")).toBeNull();
    expect(rule("/home/kim/trees/bob/src/a.ts")).toBe("outside");
    expect(rule(`${ROOT}/.overseer/sessions.db`)).toBe("overseer");
  });
});

describe("a file scope", () => {
  const scope = [
    "src/login",
    "docs/*.md",
    "app/[slug]/page.tsx",
    "packages/*/src",
    "tests/**/*.test.{ts,tsx}",
    "a?c.txt",
  ];

  test.each([
    "src/login",
    "src/login/form.ts",
    "src/login/deep/er/x.ts",
    "docs/a.md",
    "app/[slug]/page.tsx",
    "packages/web/src/index.ts",
    "tests/x.test.ts",
    "tests/deep/er/x.test.tsx",
    "abc.txt",
  ])("holds %s", (file) => expect(isInScope(file, scope)).toBe(true));

  test.each([
    "src/login.ts",
    "src/loginform/a.ts",
    "src",
    "docs/deep/a.md",
    "docs/a.txt",
    "packages/web/test/index.ts",
    "tests/x.ts",
    "ac.txt",
    "other/src/login/form.ts",
  ])("does not hold %s", (file) => expect(isInScope(file, scope)).toBe(false));

  test("bounds the file tools, and names whom to ask", () => {
    const facts = factsOf("builder", { fileScope: ["src/login", "docs/*.md"] });
    const denial = (file: string) => judge("Edit", { file_path: file }, facts, PLACE);
    expect(denial("src/login/form.ts")).toBeNull();
    expect(denial(`${WORKTREE}/docs/a.md`)).toBeNull();
    expect(denial("src/login/../api/index.ts")).toMatchObject({
      rule: "scope",
      reason: expect.stringMatching(
        /src\/api\/index\.ts is not among your files \(src\/login, docs\/\*\.md\).*--to orchestrator/s,
      ),
    });
  });

  test("a name that begins with an exclamation mark means itself", () => {
    expect(isInScope("!a/b", ["!a*"])).toBe(true);
    expect(isInScope("other", ["!a*"])).toBe(false);
  });

  test("of a branch, what is outside is named; whoever only reads hands in nothing", () => {
    const files = ["src/login/a.ts", "src/b.ts"];
    expect(outsideScope(files, { fileScope: ["src/login"], isReadOnly: false })).toEqual(["src/b.ts"]);
    expect(outsideScope(files, { fileScope: [], isReadOnly: false })).toEqual([]);
    expect(outsideScope(files, { fileScope: ["src"], isReadOnly: true })).toEqual(files);
  });
});

describe("the reader of command lines", () => {
  const words = (text: string) =>
    readShell(text, { HOME: "/h" }).flatMap((step) =>
      step.kind === "command" ? [step.words.map((w) => w.text)] : [],
    );

  test.each<[string, string[][]]>([
    [
      "a b; c d",
      [
        ["a", "b"],
        ["c", "d"],
      ],
    ],
    ["a 'b c' \"d $HOME e\" ~/f '$HOME'", [["a", "b c", "d /h e", "/h/f", "$HOME"]]],
    ["a # b; c\nd", [["a"], ["d"]]],
    ["a#b", [["a#b"]]],
    ["a <<E b\nx; y\nE\nc", [["a", "b"], ["c"]]],
    ["a <<'E' | b\nx $(y)\nE\n", [["a"], ["b"]]],
    ["a <<X <<Y\n1\nX\n2\nY\nb", [["a"], ["b"]]],
    ["a 2>&1 >x <y 2>>z b", [["a", "b"]]],
    ["a \\\n b", [["a", "b"]]],
    ["X=1 Y='a b' c", [["c"]]],
    ['a $(b `c` "$(d)") e', [["c"], ["d"], ["b", "", ""], ["a", "", "e"]]],
    ["a \u0024{b:-x y} c", [["a", "\u0024{b:-x y}", "c"]]],
    ["if a; then b; else c; fi", [["a"], ["b"], ["c"]]],
  ])("reads %j", (text, expected) => expect(words(text)).toEqual(expected));

  test("keeps what a redirection writes and what a here-document says", () => {
    const [step] = readShell("cat > a.txt 2>> b.txt <<E\nline\nE\n", {});
    expect(step).toMatchObject({ writes: [{ text: "a.txt" }, { text: "b.txt" }], input: "line\n" });
  });

  test("reads anything, and is done with it soon", () => {
    const piece = fc.oneof(
      fc.constantFrom(
        ..."'\"`\\$(){}<>|&;#~\n =*".split(""),
        "$(",
        "${",
        "((",
        "<<E",
        "<<",
        "\nE\n",
        "git push",
        "bash -c ",
        "rm ",
        "eval ",
      ),
      fc.string({ unit: "binary", maxLength: 5 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 200 }), (pieces) => {
        commandsIn(pieces.join(""), { HOME: "/h" });
        judge("Bash", { command: pieces.join("") }, factsOf("builder"), PLACE);
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    "(",
    "$(",
    "`",
    "${",
    "((",
    "<<E\n",
    "'",
    '"',
    "\\",
    "a\n",
    "bash -c '",
    "\\`",
    "{",
    ")",
    "<(",
    "x=(",
    "eval ",
    "$((",
    '"$(',
    "~",
    "<<E ",
  ])(
    "64 KB of %j are read to their end",
    (piece) => {
      const text = piece.repeat(65_536 / piece.length);
      expect(Array.isArray(commandsIn(text, {}))).toBe(true);
      judge("Bash", { command: text }, factsOf("builder"), PLACE);
    },
    5_000,
  );
});
