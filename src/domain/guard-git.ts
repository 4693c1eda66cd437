import { askFor, type Denial, type GuardFacts, noPush, type Place, readOnly } from "./guard-facts.ts";
import { elsewhere, type Folder, isFree, isIn, pathOf, territoryOf } from "./guard-territory.ts";
import type { Word } from "./shell.ts";
import { type PlainCommand, positional } from "./shell-wrappers.ts";

/** One call of git: where, what, with which words. */
interface GitCall {
  folder: Folder;
  verb: string;
  args: Word[];
  /** The words that are no options. */
  words: string[];
}

const WITH_VALUE = ["-c", "--exec-path", "--namespace", "--super-prefix", "--config-env", "--attr-source"];

export function judgeGit(command: PlainCommand, cwd: Folder, facts: GuardFacts, place: Place): Denial | null {
  const call = readCall(command, cwd, place);
  if (call === null) return null;
  const denial = judgePush(call, facts) ?? judgeFolder(call, facts, place);
  // A clone among the scratch files has branches of its own; what is in an unknown folder cannot be known.
  const isForeign = call.folder === null || territoryOf(call.folder, facts, place) === "temp";
  if (denial || isForeign) return denial;
  return judgeReader(call, facts) ?? judgeBranches(call, facts) ?? judgeShared(call, facts, place);
}

function readCall({ args, settings }: PlainCommand, cwd: Folder, place: Place): GitCall | null {
  let folder = cwd;
  const go = (word: Word | undefined) => {
    folder = word === undefined ? null : pathOf(word, folder, place);
  };
  for (const word of settings) {
    const [, value] = /^GIT_(?:DIR|WORK_TREE)=(.*)$/.exec(word.text) ?? [];
    if (value !== undefined) go({ ...word, text: value });
  }
  for (let at = 0; at < args.length; at++) {
    const word = args[at];
    if (word === undefined) return null;
    const [, name, value] = /^(--git-dir|--work-tree)=(.*)$/.exec(word.text) ?? [];
    if (name !== undefined) go({ ...word, text: value ?? "" });
    else if (word.text === "-C" || word.text === "--git-dir" || word.text === "--work-tree") go(args[++at]);
    else if (WITH_VALUE.includes(word.text)) at++;
    else if (!word.text.startsWith("-")) {
      const rest = args.slice(at + 1);
      return word.isKnown ? { folder, verb: word.text, args: rest, words: textsOf(rest) } : null;
    }
  }
  return null;
}

function textsOf(args: readonly Word[], valued: readonly string[] = []): string[] {
  return positional(args, valued).map(({ text }) => text);
}

function has({ args }: GitCall, ...options: readonly string[]): boolean {
  return args.some(({ text }) => options.includes(text));
}

function judgePush({ verb, words, args }: GitCall, facts: GuardFacts): Denial | null {
  const isPush =
    ["push", "send-pack", "http-push"].includes(verb) ||
    (["subtree", "lfs"].includes(verb) && words[0] === "push") ||
    (verb === "svn" && words[0] === "dcommit") ||
    (verb === "submodule" &&
      words[0] === "foreach" &&
      words.some((word) => /(?:^|\s)push(?:\s|$)/.test(word))) ||
    (verb === "config" &&
      args.some(({ text }) => /\.(?:pushurl|(?:push)?insteadof)$/i.test(text)) &&
      words.length > 1);
  return isPush ? noPush(facts) : null;
}

const CHANGING = new Set([
  ..."add am apply bisect checkout checkout-index cherry-pick clean commit commit-tree".split(" "),
  ..."filter-branch filter-repo gc init merge mv pull read-tree rebase replace reset restore".split(" "),
  ..."revert rm sparse-checkout switch symbolic-ref update-index update-ref".split(" "),
]);

function isChanging(call: GitCall): boolean {
  const { verb, words } = call;
  switch (verb) {
    case "stash":
      return words[0] !== "list" && words[0] !== "show";
    case "branch":
    case "tag":
      return (
        words.length > 0 &&
        !has(
          call,
          "--list",
          "-l",
          "--contains",
          "--no-contains",
          "--merged",
          "--no-merged",
          "--points-at",
          "--format",
        )
      );
    case "worktree":
    case "notes":
      return words.length > 0 && words[0] !== "list" && words[0] !== "show";
    case "config":
      return words.length > 1 && !/^(?:get|list)/.test(words[0] ?? "");
    case "submodule":
    case "remote":
      return words.length > 0 && !["status", "summary", "show", "get-url"].includes(words[0] ?? "");
    default:
      return CHANGING.has(verb);
  }
}

/** The main checkout, a fellow's worktree, another repository of the person's: to be read, not to be changed. */
function judgeFolder(call: GitCall, facts: GuardFacts, place: Place): Denial | null {
  const { folder, verb } = call;
  if (folder === null || !isChanging(call)) return null;
  // git's own folder of this worktree is as good as the worktree.
  if (isFree(folder, facts, place) || isIn(folder, facts.worktree)) return null;
  const territory = territoryOf(folder, facts, place);
  const where = elsewhere(folder, territory === "overseer" ? "checkout" : territory, facts);
  const rule = territory === "worker" ? "branches" : territory === "elsewhere" ? "outside" : "canonical";
  return { rule, reason: `git ${verb} would change another checkout. ${where}` };
}

const NOT_FOR_READERS = new Set(
  "add am apply cherry-pick commit commit-tree merge mv pull rebase revert rm switch update-ref".split(" "),
);

function judgeReader(call: GitCall, facts: GuardFacts): Denial | null {
  const { folder, verb } = call;
  if (!facts.isReadOnly || folder === null || !isIn(folder, facts.worktree)) return null;
  const isNewBranch = verb === "checkout" && has(call, "-b", "-B", "--orphan");
  if (!NOT_FOR_READERS.has(verb) && !isNewBranch) return null;
  return readOnly(`You are a ${facts.capability}: you do not git ${verb}.`, facts);
}

/** The name of a branch that is not this worker's to move. */
function foreign(name: string, facts: GuardFacts): boolean {
  const branch = name.replace(/^\+/, "").replace(/^(?:refs\/)?heads\//, "");
  if (branch === facts.canonicalBranch || branch.startsWith("refs/overseer/")) return true;
  return (
    branch.startsWith("overseer/") && branch !== facts.branch && !branch.startsWith(`overseer/${facts.name}/`)
  );
}

function judgeBranches(call: GitCall, facts: GuardFacts): Denial | null {
  const moved = movedBranches(call).find((name) => foreign(name, facts));
  if (moved === undefined) {
    const isRewritingAll =
      call.verb === "filter-repo" || (call.verb === "filter-branch" && has(call, "--all"));
    return isRewritingAll ? notYours(facts.canonicalBranch, facts) : null;
  }
  return notYours(moved, facts);
}

function notYours(name: string, facts: GuardFacts): Denial {
  const branch = name.replace(/^\+/, "").replace(/^(?:refs\/)?heads\//, "");
  const stay = `Stay on your branch ${facts.branch}; look at the other with git log, git diff or git show ${branch}:PATH.`;
  return branch === facts.canonicalBranch
    ? { rule: "canonical", reason: `${branch} is moved by the merge queue alone. ${stay}` }
    : { rule: "branches", reason: `${branch} is not your branch. ${stay}` };
}

/** The branches that a call would check out, move, rename or delete. */
function movedBranches(call: GitCall): string[] {
  const { verb, args, words } = call;
  switch (verb) {
    case "checkout":
    case "switch":
      return checkedOut(call);
    case "branch":
      return branchTargets(call);
    case "update-ref":
      return textsOf(args, ["-m"]).slice(0, 1);
    case "symbolic-ref":
      return has(call, "-d", "--delete") || words.length > 1 ? textsOf(args, ["-m"]) : [];
    case "fetch":
    case "pull":
      return words.flatMap((word) =>
        word.includes(":") && !word.includes("//") ? [word.slice(word.indexOf(":") + 1)] : [],
      );
    case "rebase":
      return textsOf(args, ["--onto", "-s", "-X", "-x", "--exec", "--strategy", "-C"]).slice(1, 2);
    case "worktree":
      return words[0] === "add" ? worktreeBranch(call) : [];
    default:
      return [];
  }
}

function checkedOut(call: GitCall): string[] {
  const made = valueAfter(call, ["-B", "-C", "--force-create"]);
  if (made !== null) return [made];
  if (has(call, "-b", "-c", "--create", "--orphan", "--detach", "-d", "-p", "--patch")) return [];
  const paths = call.args.findIndex(({ text }) => text === "--");
  if (paths !== -1 && paths < call.args.length - 1) return [];
  // A second word is a path: then it takes files from the branch, and stays where it is.
  return call.words.length === 1 ? call.words : [];
}

function branchTargets(call: GitCall): string[] {
  const { args, words } = call;
  if (has(call, "-r", "--remotes")) return [];
  const flags = args.filter(({ text }) => /^-[a-zA-Z]+$/.test(text)).map(({ text }) => text.slice(1));
  const isAny = (letters: string, ...long: string[]) =>
    has(call, ...long) || flags.some((flag) => [...letters].some((letter) => flag.includes(letter)));
  if (isAny("dDmM", "--delete", "--move")) return words;
  if (isAny("cC", "--copy")) return words.slice(-1);
  return isAny("f", "--force") ? words.slice(0, 1) : [];
}

function worktreeBranch(call: GitCall): string[] {
  const made = valueAfter(call, ["-B"]);
  if (made !== null) return [made];
  return has(call, "-b", "--detach", "-d") ? [] : textsOf(call.args, ["--reason"]).slice(2, 3);
}

function valueAfter({ args }: GitCall, options: readonly string[]): string | null {
  const at = args.findIndex(({ text }) => options.includes(text));
  return at === -1 ? null : (args[at + 1]?.text ?? null);
}

/** What a worktree has in common with all others of its repository. */
function judgeShared(call: GitCall, facts: GuardFacts, place: Place): Denial | null {
  const { folder, verb, args } = call;
  const [first = ""] = call.words;
  const deny = (why: string): Denial => ({ rule: "shared", reason: `${why} ${askFor("it", facts)}` });
  if (verb === "stash" && first === "clear") {
    return deny(
      "The stash is the person's and every worker's together. Drop only what you stashed yourself, by its number.",
    );
  }
  if (verb === "remote" && ["remove", "rm", "rename", "set-url"].includes(first)) {
    return deny("The remotes are the person's and every worker's together.");
  }
  if (verb !== "worktree" || !["add", "remove", "move", "prune"].includes(first)) return null;
  const [, target] = positional(args, ["-b", "-B", "--reason"]);
  const path = target === undefined ? null : pathOf(target, folder, place);
  // A folder that is not known may be a scratch one.
  if (target !== undefined && (path === null || isFree(path, facts, place))) return null;
  return first === "add"
    ? deny(
        "Worktrees beside the workers' are overseer's to make. One of your own goes into a folder of mktemp -d.",
      )
    : deny(`git worktree ${first} would take away a place where somebody works.`);
}
