import type { Variables } from "./shell.ts";

/** What is known of a worker before it does anything; compiled when it starts, and read by its hooks. */
export interface GuardFacts {
  name: string;
  capability: string;
  parent: string;
  /** The main checkout, and where this worker's own is. */
  root: string;
  worktree: string;
  branch: string;
  canonicalBranch: string;
  /** Empty when it may change any file of its worktree. */
  fileScope: string[];
  isReadOnly: boolean;
  canSpawn: boolean;
  /** Files of overseer's in its worktree. */
  ours: string[];
}

export function renderFacts(facts: GuardFacts): string {
  return `${JSON.stringify(facts)}\n`;
}

const TEXTS = ["name", "capability", "parent", "root", "worktree", "branch", "canonicalBranch"] as const;
const LISTS = ["fileScope", "ours"] as const;
const CLAIMS = ["isReadOnly", "canSpawn"] as const;

/** Null when the text is anything else; checked by hand, as everything that hooks read. */
export function readFacts(text: string | null): GuardFacts | null {
  try {
    const raw: unknown = JSON.parse(text ?? "");
    return isFacts(raw) ? raw : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function isFacts(raw: unknown): raw is GuardFacts {
  if (typeof raw !== "object" || raw === null) return false;
  for (const key of TEXTS) if (typeof Reflect.get(raw, key) !== "string") return false;
  for (const key of CLAIMS) if (typeof Reflect.get(raw, key) !== "boolean") return false;
  for (const key of LISTS) {
    const list: unknown = Reflect.get(raw, key);
    if (!Array.isArray(list) || list.some((item) => typeof item !== "string")) return false;
  }
  return true;
}

/** Where a tool call happens. */
export interface Place {
  cwd: string;
  /** HOME, TMPDIR and the like, by name. */
  variables: Variables;
  /** Folders for scratch files, which are everybody's. */
  temp: readonly string[];
  /** Where an absolute path really leads, through links and `..`; null when it leads in a circle. */
  resolve(path: string): string | null;
}

/**
 * read-only: whoever only looks changes nothing. outside: a worker writes in its own worktree. overseer: overseer's and
 * git's own files are not edited. scope: a worker changes its own files. push: nothing is pushed. canonical: the
 * canonical branch is moved by merging alone. branches: a worker's branch is its own. shared: stashes, remotes and
 * worktrees belong to all. delete: nothing is deleted outside of the worktree. administration: setting up, repairing and
 * merging are not a worker's. processes: others' panes and sessions are left alone. blind: what cannot be judged is not
 * written.
 */
export type GuardRule =
  | "read-only"
  | "outside"
  | "overseer"
  | "scope"
  | "push"
  | "canonical"
  | "branches"
  | "shared"
  | "delete"
  | "administration"
  | "processes"
  | "blind";

export interface Denial {
  rule: GuardRule;
  /** For the model: what is wrong, and what to do instead. */
  reason: string;
}

export function readOnly(why: string, facts: GuardFacts): Denial {
  const instead = `Describe what you would change in your report instead: overseer mail send --to ${facts.parent} --type result ...`;
  return { rule: "read-only", reason: `${why} ${instead}` };
}

export function askFor(what: string, { parent }: GuardFacts): string {
  return `If your task needs ${what}, ask: overseer mail send --to ${parent} --type question --subject "..." --body "..."`;
}

export function noPush({ parent }: GuardFacts): Denial {
  const reason = `A worker does not push. Commit to your branch and close your task: it lands from the merge queue, and ${parent} decides what leaves this machine.`;
  return { rule: "push", reason };
}
