import { OverseerError } from "../domain/errors.ts";
import type { CommandSpec } from "./command.ts";
import { COMMANDS, GROUPS } from "./registry.ts";

/** What the scripts call where the name of an agent may follow. */
const AGENTS = "overseer completions agents 2>/dev/null";

function takesAgent(spec: CommandSpec): boolean {
  return spec.arguments?.some(({ isAgent }) => isAgent) === true;
}

/** What may follow each beginning of a command line: "" is the first word, "mail" the word after it. */
function words(): Map<string, string[]> {
  const firsts = [...new Set(COMMANDS.map((spec) => spec.path[0]))];
  const found = new Map([["", firsts]]);
  for (const group of Object.keys(GROUPS)) {
    found.set(
      group,
      COMMANDS.filter((spec) => spec.path[0] === group).map((spec) => spec.path[1] ?? ""),
    );
  }
  for (const spec of COMMANDS) found.set(spec.path.join(" "), optionsOf(spec));
  return found;
}

function optionsOf(spec: CommandSpec): string[] {
  const options = (spec.options ?? []).map((option) => option.flags.split(" ")[0] ?? "");
  const values = (spec.arguments ?? []).flatMap((argument) => argument.choices ?? []);
  return [...values, ...options, "--json", "--help"];
}

export function completionScript(shell: string): string {
  switch (shell) {
    case "bash":
      return bash();
    case "zsh":
      return `#compdef overseer\nautoload -U +X bashcompinit && bashcompinit\n${bash()}`;
    case "fish":
      return fish();
    default:
      throw new OverseerError(
        "usage",
        `there are completions for bash, zsh and fish, not for ${JSON.stringify(shell)}`,
      );
  }
}

function bash(): string {
  const cases = [...words()]
    .map(([before, next]) => `    "${before}") next="${next.join(" ")}" ;;`)
    .join("\n");
  const named = COMMANDS.filter(takesAgent).map(({ path }) => `"${path.join(" ")}"`);
  return `_overseer() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="" next="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in
      -*) ;;
      *) case "$before" in
        "") before="$word" ;;
        ${Object.keys(GROUPS).join("|")}) before="$before $word" ;;
      esac ;;
    esac
  done
  case "$before" in
${cases}
  esac
  case "$before" in
    ${named.join("|")}) [[ "$current" == -* ]] || next="$next $(${AGENTS})" ;;
  esac
  COMPREPLY=($(compgen -W "$next" -- "$current"))
}
complete -F _overseer overseer
`;
}

function fish(): string {
  const lines = COMMANDS.flatMap((spec) => {
    const [first, second] = spec.path;
    const condition = second
      ? `__fish_seen_subcommand_from ${first}; and not __fish_seen_subcommand_from ${(words().get(first) ?? []).join(" ")}`
      : "__fish_use_subcommand";
    const seen = spec.path.map((part) => `__fish_seen_subcommand_from ${part}`).join("; and ");
    const agents = takesAgent(spec) ? [`complete -c overseer -f -n "${seen}" -a "(${AGENTS})"`] : [];
    const options = (spec.options ?? []).map((option) => {
      const name = (option.flags.split(" ")[0] ?? "").replace(/^--/, "");
      return `complete -c overseer -n "${seen}" -l ${name} -d "${option.meaning.replaceAll('"', "'")}"`;
    });
    return [
      `complete -c overseer -f -n "${condition}" -a ${second ?? first} -d "${spec.summary}"`,
      ...agents,
      ...options,
    ];
  });
  const groups = Object.entries(GROUPS).map(
    ([name, meaning]) => `complete -c overseer -f -n __fish_use_subcommand -a ${name} -d "${meaning}"`,
  );
  return `${[...groups, ...lines].join("\n")}\n`;
}
