import { OverseerError } from "./errors.ts";

const BEGIN = "<!-- overseer:begin -->";
const END = "<!-- overseer:end -->";

/** Whether our section is in a text, wherever the user has put it. */
export function hasSection(text: string, section: string): boolean {
  return withoutSection(text) !== text && text.includes(marked(section));
}

/** A text with our section at its end, in place of an older one. */
export function withSection(text: string, section: string): string {
  const rest = withoutSection(text);
  const gap = rest === "" ? "" : rest.endsWith("\n") ? "\n" : "\n\n";
  return `${rest}${gap}${marked(section)}\n`;
}

function marked(section: string): string {
  return `${BEGIN}\n${section.trim()}\n${END}`;
}

/** The text without our section and without the empty line we put before it. */
export function withoutSection(text: string): string {
  const begin = text.indexOf(BEGIN);
  const end = text.indexOf(END);
  if (begin === -1 && end === -1) return text;
  if (
    begin === -1 ||
    end < begin ||
    text.indexOf(BEGIN, begin + 1) !== -1 ||
    text.indexOf(END, end + 1) !== -1
  ) {
    throw new OverseerError(
      "section_damaged",
      `the lines ${BEGIN} and ${END} in .claude/CLAUDE.md do not match`,
      {
        hint: "remove both lines and what overseer wrote between them, then try again",
      },
    );
  }
  const after = text.slice(end + END.length).replace(/^\r?\n/, "");
  const before = text.slice(0, begin).replace(/(\r?\n)\r?\n$/, "$1");
  return before === "\n" ? after : before + after;
}
