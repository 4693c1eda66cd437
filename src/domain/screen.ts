/** What stands in the way of a worker that does not start, as far as its screen tells. */
export function explainScreen(screen: string, root: string): { why: string; hint: string } | null {
  if (/do you trust|trust (?:the files in )?this folder/i.test(screen)) {
    return {
      why: "Claude Code asks whether it may trust this folder",
      hint: `start claude once in ${root}, say yes, then sling again`,
    };
  }
  if (/select login method|please run \/login|invalid api key/i.test(screen)) {
    return { why: "Claude Code is not logged in", hint: `start claude once in ${root} and log in` };
  }
  if (/allow external imports/i.test(screen)) {
    return {
      why: "Claude Code asks whether a CLAUDE.md may import files from outside of this repository",
      hint: `start claude once in ${root} and answer it`,
    };
  }
  if (/detected a custom api key/i.test(screen)) {
    return { why: "Claude Code asks about the API key", hint: `start claude once in ${root} and answer it` };
  }
  return null;
}

/** Whether something stands in Claude Code's input field, or no such field is to be seen: then nothing is pasted. */
export function hasDraft(screen: string): boolean {
  const lines = screen.split("\n");
  const first = lines.findLastIndex((line) => /^[❯>]/.test(line));
  if (first === -1) return true;
  const below = lines.slice(first);
  const border = below.findIndex((line) => /^[─╰]/.test(line));
  const field = border === -1 ? below.slice(0, 1) : below.slice(0, border);
  return field.join("").slice(1).trim() !== "";
}
