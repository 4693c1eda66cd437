import { askFor, type Denial, type GuardFacts, noPush, type Place } from "./guard-facts.ts";
import { judgeGit } from "./guard-git.ts";
import { elsewhere, type Folder, isTaboo, pathOf, territoryOf, trespass } from "./guard-territory.ts";
import type { Word } from "./shell.ts";
import { commandsIn, type PlainCommand, positional } from "./shell-wrappers.ts";

/** The plain cases only: whoever wants to get round this can. What binds is in the environment and at the merge. */
export function judgeShell(text: string, facts: GuardFacts, place: Place): Denial | null {
  let cwd: Folder = place.cwd;
  const outer: Folder[] = [];
  for (const step of commandsIn(text, place.variables)) {
    if (step.kind === "enter") outer.push(cwd);
    else if (step.kind === "leave") cwd = outer.pop() ?? null;
    else {
      const denial = judgeCommand(step, cwd, facts, place);
      if (denial) return denial;
      if (step.name === "cd" || step.name === "pushd") cwd = folderAfter(step, cwd, place);
      else if (step.name === "popd") cwd = null;
    }
  }
  return null;
}

function folderAfter({ args }: PlainCommand, cwd: Folder, place: Place): Folder {
  const to = args.find(({ text }) => !/^-[A-Za-z@]+$/.test(text) && text !== "--");
  if (to === undefined) return place.variables.HOME ?? null;
  return to.text === "-" ? null : pathOf(to, cwd, place);
}

/** The same for what is removed or renamed: of a link it is the link itself. */
function entryOf(word: Word, cwd: Folder, place: Place): string | null {
  const text = word.text.length > 1 ? word.text.replace(/\/+$/, "") : word.text;
  const at = text.lastIndexOf("/");
  const name = text.slice(at + 1);
  if (name === "" || name === "." || name === "..") return pathOf(word, cwd, place);
  const folder = pathOf({ ...word, text: at === -1 ? "." : text.slice(0, at) || "/" }, cwd, place);
  return folder === null ? null : `${folder === "/" ? "" : folder}/${name}`;
}

function judgeCommand(command: PlainCommand, cwd: Folder, facts: GuardFacts, place: Place): Denial | null {
  for (const word of [...command.writes, ...written(command)]) {
    const denial = judgeTarget(pathOf(word, cwd, place), facts, place);
    if (denial) return denial;
  }
  for (const word of removed(command)) {
    const path = entryOf(word, cwd, place);
    if (path !== null && isTaboo(path, facts, place)) return keep(path, facts, place);
  }
  switch (command.name) {
    case "git":
      return judgeGit(command, cwd, facts, place);
    case "gh":
    case "glab":
      return judgeForge(command, facts);
    case "overseer":
      return judgeOverseer(command, facts);
    case "tmux":
    case "pkill":
    case "killall":
      return judgeProcesses(command, facts);
    default:
      return null;
  }
}

function judgeTarget(path: string | null, facts: GuardFacts, place: Place): Denial | null {
  if (path === null) return null;
  const territory = territoryOf(path, facts, place);
  const isGuarded = territory === "overseer" || territory === "checkout" || territory === "worker";
  return isGuarded ? trespass(path, territory, facts) : null;
}

function keep(path: string, facts: GuardFacts, place: Place): Denial {
  const territory = territoryOf(path, facts, place);
  const why =
    territory === "own" || territory === "overseer" || territory === "temp"
      ? `${path} holds what overseer or git needs here. Name the files inside that you want to be rid of.`
      : `${elsewhere(path, territory, facts)} Nothing is deleted elsewhere.`;
  return { rule: "delete", reason: territory === "elsewhere" ? `${why} ${askFor("that", facts)}` : why };
}

function written({ name, args }: PlainCommand): Word[] {
  switch (name) {
    case "tee":
    case "touch":
    case "mkdir":
    case "truncate":
      return positional(args, ["-s", "-m", "-d", "-r", "-t"]);
    case "cp":
    case "mv":
    case "ln":
    case "install":
    case "rsync": {
      const into = args.findIndex(({ text }) => text === "-t" || text === "--target-directory");
      const words = positional(args, ["-m", "-o", "-g", "-S", "-e"]);
      if (into !== -1) return args.slice(into + 1, into + 2);
      return words.length > 1 ? words.slice(-1) : [];
    }
    case "sed":
    case "perl":
      return args.some(({ text }) => /^-(?![mMI])[a-zA-Z]*i|^--in-place/.test(text))
        ? positional(args, ["-e", "-f"])
        : [];
    case "dd":
      return args.flatMap((word) =>
        word.text.startsWith("of=") ? [{ ...word, text: word.text.slice("of=".length) }] : [],
      );
    default:
      return [];
  }
}

function removed({ name, args }: PlainCommand): Word[] {
  switch (name) {
    case "rm":
    case "rmdir":
    case "unlink":
    case "shred":
    case "trash":
      return positional(args, ["-n", "-s"]);
    case "mv": {
      const isInto = args.some(({ text }) => text === "-t" || text === "--target-directory");
      const words = positional(args, ["-t", "--target-directory", "-S"]);
      return isInto ? words : words.slice(0, -1);
    }
    case "find":
      return isDeleting(args) ? startsOfFind(args) : [];
    default:
      return [];
  }
}

function isDeleting(args: readonly Word[]): boolean {
  return args.some(
    ({ text }, at) =>
      text === "-delete" ||
      (/^-(?:exec|execdir|ok|okdir)$/.test(text) &&
        /(?:^|\/)(?:rm|rmdir|unlink|shred)$/.test(args[at + 1]?.text ?? "")),
  );
}

/** What is found there may be everything below, but not the start itself. */
function startsOfFind(args: readonly Word[]): Word[] {
  const options = args.findIndex(({ text }) => !/^-[HLP]$/.test(text));
  const rest = options === -1 ? [] : args.slice(options);
  const end = rest.findIndex(({ text }) => /^[-(!]/.test(text));
  const starts = end === -1 ? rest : rest.slice(0, end);
  const within: Word = { text: "./anything", isKnown: true };
  return starts.length === 0 ? [within] : starts.map((word) => ({ ...word, text: `${word.text}/anything` }));
}

function judgeForge({ args }: PlainCommand, facts: GuardFacts): Denial | null {
  const [noun, verb] = positional(args, ["-R", "--repo"]).map(({ text }) => text);
  const isPush =
    ((noun === "pr" || noun === "mr") && (verb === "create" || verb === "merge")) ||
    (noun === "repo" && verb === "sync");
  return isPush ? noPush(facts) : null;
}

function judgeOverseer({ args }: PlainCommand, facts: GuardFacts): Denial | null {
  const [noun = "", verb = ""] = positional(args).map(({ text }) => text);
  const isFixing = args.some(({ text }) => text === "--fix");
  const deny = (what: string): Denial => ({
    rule: "administration",
    reason: `overseer ${what} is not a ${facts.capability}'s to run. ${askFor("it", facts)}`,
  });
  switch (noun) {
    case "init":
    case "uninstall":
      return deny(noun);
    case "doctor":
      return isFixing ? deny("doctor --fix") : null;
    case "finish":
      return {
        rule: "administration",
        reason:
          'overseer finish is run for you. Say overseer task close ID --reason "..." and end your turn.',
      };
    case "merge":
      return facts.capability === "merger" ? null : deny("merge");
    case "worktree":
      return verb === "clean" && !facts.canSpawn ? deny("worktree clean") : null;
    case "sling":
    case "stop":
    case "resume":
      return facts.canSpawn ? null : deny(noun);
    default:
      return null;
  }
}

function judgeProcesses({ name, args }: PlainCommand, facts: GuardFacts): Denial | null {
  if (
    name === "tmux" ? !isKillingTmux(args) : !args.some(({ text }) => /^(?:tmux|claude|overseer)$/.test(text))
  ) {
    return null;
  }
  const reason = `That would end others' sessions, and the person's. End what you started yourself by its process id; a tmux of your own gets a socket of its own (tmux -L NAME). ${askFor("more", facts)}`;
  return { rule: "processes", reason };
}

/** On a socket of its own it is nobody else's. */
function isKillingTmux(args: readonly Word[]): boolean {
  const socket = args.findIndex(({ text }) => text === "-L" || text === "-S");
  const isOwn = socket !== -1 && !/(?:^|\/)overseer-/.test(args[socket + 1]?.text ?? "");
  const verb = positional(args, ["-L", "-S", "-f", "-c"])[0]?.text ?? "";
  return !isOwn && /^kill-(?:server|session|window|pane)$/.test(verb);
}
