import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const ROOT = dirname(import.meta.dir);
const ROOMS = ["cli", "commands", "domain", "effects", "flows", "hooks", "store"];
/** What a hook may load of the workshop on every tool call. */
const QUICK_EFFECTS = ["paths", "logs", "raw-files", "compiled", "processes", "tokens", "waiters"].map(
  (n) => `effects/${n}.ts`,
);

interface Import {
  from: string;
  /** A file relative to src, or the name of a package. */
  to: string;
  isPackage: boolean;
  isLazy: boolean;
  isType: boolean;
}

const files = readdirSync(`${ROOT}/src`, { recursive: true, encoding: "utf8" });
const sources = files.filter((file) => file.endsWith(".ts")).toSorted();
const read = (path: string) => readFileSync(`${ROOT}/${path}`, "utf8");
const imports = sources.flatMap(importsOf);

function importsOf(from: string): Import[] {
  const text = read(`src/${from}`);
  const statics = text.matchAll(/^(?:import|export)\s+(type\s)?(?:[^;"']*?\sfrom\s+)?["']([^"']+)["']/gm);
  const lazies = text.matchAll(/\bimport\(\s*["'`]([^"'`]+)["'`]/g);
  const others = text.matchAll(/\brequire\(\s*["']([^"']+)["']/g);
  return [
    ...[...statics].map(([, type, to]) => ({
      ...target(from, to ?? ""),
      isLazy: false,
      isType: type !== undefined,
    })),
    ...[...lazies].map(([, to]) => ({ ...target(from, to ?? ""), isLazy: true, isType: false })),
    ...[...others].map(([, to]) => ({ ...target(from, to ?? ""), isLazy: false, isType: false })),
  ];
}

function target(from: string, to: string) {
  const isPackage = !to.startsWith(".");
  const file = isPackage ? to : normalize(join(dirname(from), to)).replace(/\.js$/, ".ts");
  return { from, to: file, isPackage };
}

const roomOf = (file: string) => (file.includes("/") ? file.slice(0, file.indexOf("/")) : file);
const show = ({ from, to, isLazy }: Import) => `${from} -> ${to}${isLazy ? " (lazily)" : ""}`;

/** Whether a room may import a file of the house: the table of the design, and nothing else. */
const MAY: Record<string, (to: string, isLazy: boolean) => boolean> = {
  domain: (to) => roomOf(to) === "domain",
  store: (to) => ["store", "domain"].includes(roomOf(to)),
  effects: (to) => ["effects", "domain"].includes(roomOf(to)),
  flows: (to) => ["flows", "domain", "effects"].includes(roomOf(to)) || dirname(to) === "store",
  commands: (to) => ["flows", "domain", "cli"].includes(roomOf(to)),
  hooks: (to, isLazy) =>
    ["hooks", "domain", "store"].includes(roomOf(to)) ||
    QUICK_EFFECTS.includes(to) ||
    (isLazy && roomOf(to) === "effects"),
  cli: (to, isLazy) => isLazy || !["commands", "hooks"].includes(roomOf(to)),
  "main.ts": (to) => roomOf(to) === "cli",
};

describe("the rooms", () => {
  test("are those of the design, and no folder is a drawer for everything", () => {
    const folders = files.filter((file) => statSync(`${ROOT}/src/${file}`).isDirectory());
    expect(folders.filter((folder) => !folder.includes("/")).toSorted()).toEqual(ROOMS);
    expect(
      folders.filter((folder) => /(?:^|\/)(?:utils?|helpers?|types?|common|managers?)$/.test(folder)),
    ).toEqual([]);
  });

  test("the imports are seen at all, of every kind", () => {
    expect(new Set(imports.map(({ from }) => roomOf(from)))).toEqual(new Set([...ROOMS, "main.ts"]));
    expect(imports.some(({ isLazy }) => isLazy)).toBe(true);
    expect(imports.some(({ isType }) => isType)).toBe(true);
    const lost = imports.filter(({ to, isPackage }) => !isPackage && !existsSync(`${ROOT}/src/${to}`));
    expect(lost.map(show)).toEqual([]);
  });

  test.each(Object.keys(MAY))("%s imports only what the design's table allows", (room) => {
    const own = imports.filter(({ from, isPackage }) => roomOf(from) === room && !isPackage);
    expect(own.filter(({ to, isLazy }) => !MAY[room]?.(to, isLazy)).map(show)).toEqual([]);
  });

  test("the study takes no package but the schema library, the archive none but SQLite", () => {
    const packages = (room: string) =>
      new Set(
        imports.filter(({ from, isPackage }) => isPackage && roomOf(from) === room).map(({ to }) => to),
      );
    expect(packages("domain").difference(new Set(["zod"]))).toEqual(new Set());
    expect(packages("store").difference(new Set(["bun:sqlite"]))).toEqual(new Set());
  });

  test.each(ROOMS)("%s has a README of at most 40 lines", (room) => {
    expect(read(`src/${room}/README.md`).trimEnd().split("\n").length).toBeLessThanOrEqual(40);
  });
});

describe("the doorbell", () => {
  /** Everything that is loaded before a hook does anything. */
  function loaded(entry: string, seen = new Set<string>()): Set<string> {
    if (seen.has(entry)) return seen;
    seen.add(entry);
    for (const { from, to, isLazy, isType, isPackage } of imports) {
      if (from !== entry || isLazy || isType) continue;
      if (isPackage) seen.add(to);
      else loaded(to, seen);
    }
    return seen;
  }

  test.each(sources.filter((file) => file.startsWith("hooks/")))(
    "%s loads nothing but Bun's own modules",
    (entry) => {
      const packages = [...loaded(entry)].filter((name) => !name.endsWith(".ts"));
      expect(packages.filter((name) => !["bun:sqlite", "bun:ffi"].includes(name))).toEqual([]);
    },
  );

  const bundles = readdirSync(`${ROOT}/dist`).filter((file) => file.endsWith(".js"));

  test.each(bundles)("dist/%s has no library in it and requires nothing but Bun's own modules", (bundle) => {
    const text = read(`dist/${bundle}`);
    const required = [
      ...text.matchAll(/\b(?:require|import)\(["'`]([^"'`]+)["'`]\)|\bfrom\s*["']([^"']+)["']/g),
    ];
    const modules = required
      .map(([, called, from]) => called ?? from ?? "")
      .filter((name) => /^[a-z@./]/.test(name));
    expect(modules.filter((name) => !/^bun:(?:sqlite|ffi)$/.test(name))).toEqual([]);
    const marks = {
      commander: "commander.",
      zod: "ZodError",
      yaml: "YAMLParseError",
      chalk: "FORCE_COLOR",
      nanoid: "useandom",
    };
    expect(Object.entries(marks).filter(([, mark]) => text.includes(mark))).toEqual([]);
  });

  test("dist/hook.js, which runs on every tool call, is under 64 KB", () => {
    expect(bundles).toContain("hook.js");
    expect(statSync(`${ROOT}/dist/hook.js`).size).toBeLessThan(64 * 1024);
  });
});

describe("the smells", () => {
  /** The brackets keep these lines from smelling themselves. */
  test.each([
    ["a room that became a hall", `find src -name '*.ts' -exec wc -l {} + | awk '$1>400 && $2!="total"'`],
    [
      "a second runner",
      String.raw`grep -rnE 'Bun\.(spawn|\$)|child_process|process\.kill' src | grep -v '^src/effects/'`,
    ],
    [
      "an impure study",
      String.raw`grep -rnE 'Date\.now|new Date\(\)|Math\.random|nanoid|process\.' src/domain src/store`,
    ],
    ["a stray database", String.raw`grep -rnE 'new (Database|SQL)\(|PRAGMA' src | grep -v '^src/store/'`],
    ["a swallowed error", String.raw`grep -rPzoh 'catch( \(\w+\))? \{\s*(//[^\n]*\s*)*\}' src`],
    [
      "a private mouth",
      String.raw`grep -rnE 'console\.|process\.(stdout|stderr)\.write|process\.exit\(' src | grep -vE '^src/(main|cli|hooks)'`,
    ],
    [
      "waiting, mocking",
      `grep -rnE 'mock[.]module|spy[O]n|Bun[.]sleep|set[T]imeout' __tests__ | grep -v '__tests__/support'`,
    ],
    [
      "work left for later",
      String.raw`grep -rnE '\b(TO[D]O|FIX[M]E|XX[X]:)' src __tests__ scripts bin agents templates`,
    ],
    [
      "a test that does not run",
      String.raw`grep -rnE '\b(test|describe|it)[.](skip|only|todo|failing)\b' __tests__`,
    ],
  ])("there is no %s", (_smell, command) => {
    const { stdout, stderr } = Bun.spawnSync(["sh", "-c", command], { cwd: ROOT });
    expect(stdout.toString()).toBe("");
    expect(stderr.toString()).toBe("");
  });

  test("every statement that sets a state says from which state or version", () => {
    const statements = sources
      .filter((file) => file.startsWith("store/"))
      .flatMap((file) => read(`src/${file}`).match(/\bUPDATE \w+\s+SET\b[^`"]*/gi) ?? []);
    expect(statements.length).toBeGreaterThan(2);
    const setting = statements.filter((sql) =>
      /\b(?:state|status)\s*=/i.test(sql.split(/\bWHERE\b/i)[0] ?? ""),
    );
    expect(setting).not.toEqual([]);
    const careless = setting.filter(
      (sql) => !/\b(?:state|status|version)\s*(?:=|IN\b)/i.test(sql.split(/\bWHERE\b/i)[1] ?? ""),
    );
    expect(careless).toEqual([]);
  });
});
