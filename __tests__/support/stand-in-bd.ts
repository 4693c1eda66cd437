/**
 * A stand-in for `bd`, the CLI of beads: the real one's npm package fetches its binary from GitHub, which a test must not
 * need. It answers to the few verbs that overseer calls as the documentation of beads 1.3 (docs/cli-reference, of the
 * repository gastownhall/beads) and the shapes of its `--json` say, without BD_JSON_ENVELOPE, or with it as v2.0 will:
 *
 * - `list`, `ready`, `show`, `update` and `close` print an array, `create` one object with a `schema_version`, and
 *   `close --suggest-next` an object with `closed` and `unblocked` where that made something ready;
 * - `list` has dependencies as records (`depends_on_id`, `type`), `show` as issues (`id`, `status`, `dependency_type`);
 * - errors are `{"error", "schema_version"}` on stdout and exit 1; `show` also says on stderr what it did not find;
 * - ids may be shortened to a part that only one issue has; a dependency that is unknown is only warned of;
 * - closing what is closed is no error; a status other than closed opens it again; `list` leaves out closed ones.
 *
 * It keeps one JSON file per issue in `.beads` of the nearest folder above, and notes each call in `.beads/calls.log`.
 */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";

interface Dependency {
  depends_on_id: string;
  type: string;
}

interface StoredIssue {
  id: string;
  title: string;
  description?: string;
  status: string;
  priority: number;
  issue_type: string;
  created_at: string;
  updated_at: string;
  closed_at?: string;
  close_reason?: string;
  labels?: string[];
  dependencies?: Dependency[];
  metadata?: unknown;
}

const [verb = "", ...words] = process.argv.slice(2);
if (verb === "--version") {
  process.stdout.write("bd version 1.3.0 (stand-in)\n");
  process.exit(0);
}
const { values, positionals } = parseArgs({
  args: words,
  allowPositionals: true,
  options: {
    json: { type: "boolean" },
    title: { type: "string" },
    type: { type: "string", short: "t", default: "task" },
    priority: { type: "string", short: "p", default: "2" },
    labels: { type: "string", short: "l", multiple: true },
    deps: { type: "string", multiple: true },
    metadata: { type: "string" },
    description: { type: "string", short: "d" },
    "body-file": { type: "string" },
    status: { type: "string", short: "s" },
    reason: { type: "string", short: "r" },
    "suggest-next": { type: "boolean" },
    all: { type: "boolean" },
    limit: { type: "string", short: "n" },
  },
});

const home = findHome(process.cwd());
appendFileSync(join(home, "calls.log"), `${[verb, ...words].join(" ")}\n`);

switch (verb) {
  case "init":
    break;
  case "create":
    print(await create());
    break;
  case "list":
    print(
      limited(
        issues().filter(({ status }) => values.all || status !== "closed"),
        50,
      ),
    );
    break;
  case "ready":
    print(limited(issues().filter(isReady), 100));
    break;
  case "show":
    print(show());
    break;
  case "update":
    print(positionals.map((id) => update(find(id), { status: values.status ?? "open" })));
    break;
  case "close":
    close();
    break;
  default:
    fail(`unknown command "${verb}" for "bd"`);
}

function findHome(folder: string): string {
  if (existsSync(join(folder, ".beads"))) return join(folder, ".beads");
  if (verb === "init") {
    mkdirSync(join(folder, ".beads"));
    return join(folder, ".beads");
  }
  if (folder === "/") fail("no beads database found");
  return findHome(dirname(folder));
}

function issues(): StoredIssue[] {
  const files = readdirSync(home).filter((file) => file.endsWith(".json"));
  return files.map((file): StoredIssue => JSON.parse(readFileSync(join(home, file), "utf8")));
}

function save(issue: StoredIssue): StoredIssue {
  const file = join(home, `${issue.id}.json`);
  writeFileSync(`${file}.${process.pid}`, JSON.stringify(issue));
  renameSync(`${file}.${process.pid}`, file);
  return issue;
}

function resolve(part: string): StoredIssue | null {
  const all = issues();
  const exact = all.find(({ id }) => id === part);
  const similar = all.filter(({ id }) => id.split("-").slice(1).join("-").startsWith(part));
  return exact ?? (similar.length === 1 ? (similar[0] ?? null) : null);
}

function find(id: string): StoredIssue {
  return resolve(id) ?? fail(`issue not found: ${id}`);
}

async function create(): Promise<object> {
  const title = values.title ?? positionals[0];
  if (title === undefined) fail("title required");
  const description = values["body-file"] === "-" ? await Bun.stdin.text() : values.description;
  const dependencies = (values.deps ?? []).flatMap((id): Dependency[] => {
    if (resolve(id)) return [{ depends_on_id: id, type: "blocks" }];
    process.stderr.write(`Warning: failed to add dependency ${id}: issue not found\n`);
    return [];
  });
  const now = new Date().toISOString();
  const issue: StoredIssue = {
    id: `${prefix()}-${crypto.randomUUID().slice(0, 4)}`,
    title: title ?? "",
    status: "open",
    priority: Number(values.priority.replace(/^P/, "")),
    issue_type: values.type,
    created_at: now,
    updated_at: now,
    ...(description ? { description } : {}),
    ...(values.labels ? { labels: values.labels.map(fromCsv) } : {}),
    ...(values.metadata ? { metadata: JSON.parse(values.metadata) } : {}),
  };
  save({ ...issue, ...(dependencies.length > 0 ? { dependencies } : {}) });
  return issue;
}

/** One field of a line of CSV, as bd reads its lists. */
function fromCsv(field: string): string {
  return /^".*"$/s.test(field) ? field.slice(1, -1).replaceAll('""', '"') : field;
}

function prefix(): string {
  return basename(dirname(home))
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "")
    .slice(-6);
}

function isReady({ status, dependencies = [] }: StoredIssue): boolean {
  return status === "open" && dependencies.every(({ depends_on_id: id }) => resolve(id)?.status === "closed");
}

function show(): object[] {
  const found = positionals.flatMap((id) => {
    const issue = resolve(id);
    if (!issue) process.stderr.write(`Issue ${id} not found\n`);
    return issue ? [{ ...issue, dependencies: (issue.dependencies ?? []).map(asIssue) }] : [];
  });
  return found.length > 0 ? found : fail("no issues found matching the provided IDs");
}

function asIssue({ depends_on_id: id, type }: Dependency): object {
  const { dependencies: _, ...issue } = find(id);
  return { ...issue, dependency_type: type };
}

function update(issue: StoredIssue, change: Partial<StoredIssue>): StoredIssue {
  const { closed_at: _, close_reason: __, ...rest } = issue;
  const before = change.status === "closed" ? issue : rest;
  return save({ ...before, ...change, updated_at: new Date().toISOString() });
}

function close(): void {
  const waiting = issues().filter((issue) => issue.status === "open" && !isReady(issue));
  const closed = positionals.map((id) => {
    const issue = find(id);
    const close_reason = values.reason ?? "Closed";
    if (issue.status === "closed") return issue;
    return update(issue, { status: "closed", closed_at: new Date().toISOString(), close_reason });
  });
  const plain = closed.map(({ dependencies: _, ...issue }) => issue);
  const unblocked = waiting.filter(isReady);
  print(values["suggest-next"] && unblocked.length > 0 ? { closed: plain, unblocked } : plain);
}

function limited(list: StoredIssue[], standard: number): StoredIssue[] {
  const limit = Number(values.limit ?? standard);
  return limit === 0 ? list : list.slice(0, limit);
}

function print(answer: object): void {
  const isEnvelope = process.env.BD_JSON_ENVELOPE === "1";
  const plain = Array.isArray(answer) ? answer : { ...answer, schema_version: 1 };
  const told = isEnvelope ? { schema_version: 1, data: answer } : plain;
  if (values.json) process.stdout.write(`${JSON.stringify(told, null, 2)}\n`);
}

function fail(error: string): never {
  if (values?.json) process.stdout.write(`${JSON.stringify({ error, schema_version: 1 }, null, 2)}\n`);
  else process.stderr.write(`Error: ${error}\n`);
  process.exit(1);
}
