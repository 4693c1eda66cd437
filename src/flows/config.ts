import { readFile, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type YAMLError,
} from "yaml";
import { type Config, type ConfigEntry, type ConfigIssue, resolveConfig } from "../domain/config.ts";
import { messageOf, OverseerError } from "../domain/errors.ts";
import { pathsOf } from "../effects/paths.ts";

/** As messages call it: short, and the same from every folder. */
const FILE = ".overseer/config.yaml";

// All keys with their comments are some 6 KB, and looking for duplicate keys takes time by the square of their number.
const MAX_BYTES = 64 * 1024;
const MAX_PROBLEMS = 20;

export interface LoadConfigOptions {
  /** Asked only if the file does not name the branch, because finding it out takes git. */
  readonly canonicalBranch: () => string | Promise<string>;
  /** Values of flags by dotted key, in the file's form ("30s"); undefined is "not given". */
  readonly overrides?: Readonly<Record<string, unknown>>;
}

export interface LoadedConfig {
  readonly config: Config;
  readonly entries: readonly ConfigEntry[];
}

interface Problem {
  /** Where in the file, from 1; null for what no line is to blame for. */
  readonly line: number | null;
  readonly message: string;
  readonly isFlag?: boolean;
}

interface Parsed {
  readonly raw: unknown;
  readonly duplicates: readonly Problem[];
  readonly lineOf: (path: ConfigIssue["path"]) => number | null;
}

/** `<root>/.overseer/config.yaml` over the defaults, flags over both; a missing file is as good as an empty one. */
export async function loadConfig(root: string, options: LoadConfigOptions): Promise<LoadedConfig> {
  const text = await readConfigText(pathsOf(root).config);
  const { raw, duplicates, lineOf } = parseYaml(text ?? "");
  const surroundings = {
    folderName: basename(resolve(root)) || "project",
    canonicalBranch: namesBranch(raw) ? "" : await options.canonicalBranch(),
  };
  const resolution = resolveConfig(raw, surroundings, options.overrides);
  if (resolution.kind === "invalid") {
    throw invalid([...duplicates, ...resolution.issues.map((issue) => problemOf(issue, lineOf))]);
  }
  if (duplicates.length > 0) throw invalid(duplicates);
  return { config: resolution.config, entries: resolution.entries };
}

/** The file that `overseer init` writes. The names are quoted, since a folder may be called `1.0` or `a: b`. */
export function renderConfigTemplate(
  template: string,
  values: { name: string; canonicalBranch: string },
): string {
  return template.replace(/\{\{(name|canonicalBranch)\}\}/g, (_, key: "name" | "canonicalBranch") =>
    JSON.stringify(values[key]),
  );
}

async function readConfigText(path: string): Promise<string | null> {
  const found = await unlessMissing(stat(path));
  if (found === null) return null;
  // Asked before reading: a pipe in its place would keep us waiting for ever.
  if (!found.isFile()) throw unreadable("is not a regular file");
  if (found.size > MAX_BYTES) throw unreadable(`has ${found.size} bytes; allowed: up to ${MAX_BYTES}`);
  const bytes = await unlessMissing(readFile(path));
  return bytes === null ? null : decode(bytes);
}

async function unlessMissing<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return null;
    throw unreadable(`cannot be read: ${messageOf(cause)}`, cause);
  }
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw unreadable("is not UTF-8 text", cause);
  }
}

function namesBranch(raw: unknown): boolean {
  if (typeof raw !== "object" || raw === null || !("project" in raw)) return false;
  const { project } = raw;
  return typeof project === "object" && project !== null && "canonicalBranch" in project;
}

function parseYaml(text: string): Parsed {
  const counter = new LineCounter();
  const options = { lineCounter: counter, prettyErrors: false, merge: true, logLevel: "error" } as const;
  const document = withoutPlace(() => parseDocument(text, options));
  // After a duplicate key the rest can still be judged; after any other fault its problems would be made up.
  const isDuplicate = ({ code }: YAMLError) => code === "DUPLICATE_KEY";
  const faults = [...document.errors, ...document.warnings].filter((fault) => !isDuplicate(fault));
  const fatal = [
    ...faults.map((fault) => faultProblem(counter, fault)),
    ...danglingAliases(document, counter),
  ];
  if (fatal.length > 0) throw invalid(fatal);
  return {
    raw: withoutPlace(() => document.toJS()),
    duplicates: document.errors.filter(isDuplicate).map(({ pos }) => duplicateProblem(counter, pos[0], text)),
    lineOf: (path) => lineOfPath(document, counter, path),
  };
}

/** Too many aliases, a merge key that is no mapping, nesting deeper than the stack: the library throws and names no place. */
function withoutPlace<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw invalid([{ line: null, message: messageOf(cause) }], cause);
  }
}

function faultProblem(counter: LineCounter, { code, message, pos }: YAMLError): Problem {
  // The library's own words here are advice to a programmer.
  const isSecond = code === "MULTIPLE_DOCS";
  return problemAt(counter, pos[0], isSecond ? "a second document begins; allowed: one" : message);
}

function duplicateProblem(counter: LineCounter, offset: number, text: string): Problem {
  const [key = ""] = /^(?:"[^"]*"|'[^']*'|[^\s:]*)/.exec(text.slice(offset, offset + 80)) ?? [];
  return problemAt(counter, offset, `${key} is there twice; allowed: each key once`);
}

function danglingAliases(document: Document.Parsed, counter: LineCounter): Problem[] {
  const anchors = new Set<string>();
  const problems: Problem[] = [];
  // In the order of the file: an anchor counts only for the aliases after it.
  visit(document, {
    Alias(_, { source, range }) {
      if (anchors.has(source)) return;
      problems.push(problemAt(counter, range?.[0] ?? 0, `*${source} has no anchor &${source} before it`));
    },
    Value(_, { anchor }) {
      if (anchor !== undefined) anchors.add(anchor);
    },
  });
  return problems;
}

function problemAt(counter: LineCounter, offset: number, message: string): Problem {
  return { line: counter.linePos(offset).line, message };
}

/** The line of the deepest part of the path that the file has; what an alias stands for is where its anchor is. */
function lineOfPath(
  document: Document.Parsed,
  counter: LineCounter,
  path: ConfigIssue["path"],
): number | null {
  let node: unknown = document.contents;
  let offset = isNode(node) ? node.range?.[0] : undefined;
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document);
    const next = stepInto(node, step);
    if (next === null) break;
    offset = next.offset ?? offset;
    node = next.node;
  }
  return offset === undefined ? null : counter.linePos(offset).line;
}

function stepInto(
  node: unknown,
  step: string | number,
): { node: unknown; offset: number | undefined } | null {
  if (isSeq(node) && typeof step === "number") {
    const item = node.items[step];
    return { node: item, offset: isNode(item) ? item.range?.[0] : undefined };
  }
  if (!isMap(node)) return null;
  // The last, because of two equal keys the later one counts.
  const pair = node.items.findLast(({ key }) => isScalar(key) && String(key.value ?? "") === step);
  return pair === undefined
    ? null
    : { node: pair.value, offset: isScalar(pair.key) ? pair.key.range?.[0] : undefined };
}

function problemOf(issue: ConfigIssue, lineOf: Parsed["lineOf"]): Problem {
  if (issue.source === "flag") {
    const message = `${issue.path.join(".")} ${issue.message}; allowed: ${issue.allowed}`;
    return { line: null, message, isFlag: true };
  }
  const what = issue.path.length === 0 ? "the file" : dotted(issue.path);
  return { line: lineOf(issue.path), message: `${what} ${issue.message}; allowed: ${issue.allowed}` };
}

/** A key that is not a plain word is quoted and cut, so that a strange file cannot make a strange message. */
function dotted(path: ConfigIssue["path"]): string {
  return path
    .map((step) =>
      /^[\w-]{1,60}$/.test(String(step)) ? String(step) : JSON.stringify(String(step).slice(0, 60)),
    )
    .join(".");
}

function render({ line, message, isFlag = false }: Problem): string {
  const place = isFlag ? "flag" : line === null ? FILE : `${FILE}:${line}`;
  // The library quotes the file in its messages; a stray control character must not reach a terminal.
  return `${place}: ${message.replace(/\p{Cc}+/gu, " ")}`;
}

function unreadable(message: string, cause?: unknown): OverseerError {
  return invalid([{ line: null, message: `the file ${message}` }], cause);
}

function invalid(problems: readonly Problem[], cause?: unknown): OverseerError {
  const sorted = problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));
  const lines = [...new Set(sorted.map(render))];
  const more = lines.length - MAX_PROBLEMS;
  const shown = more > 0 ? [...lines.slice(0, MAX_PROBLEMS), `and ${more} more`] : lines;
  return new OverseerError("config_invalid", shown.join("\n"), {
    hint: `correct ${FILE}, then run: overseer config validate`,
    cause,
  });
}
