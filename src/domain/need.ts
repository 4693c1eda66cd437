import type { SessionState, WaitingReason } from "./session.ts";

/** What a worker lacks that does not go on by itself: an answer in its pane, or a word to go on. */
export type Need = "answer" | "word";

interface Standing {
  state: SessionState;
  reason: WaitingReason | null;
}

export function needOf({ state, reason }: Standing, hasWorkLeft: boolean): Need | null {
  if (state === "waiting" && (reason === "permission" || reason === "question")) return "answer";
  return state === "idle" && hasWorkLeft ? "word" : null;
}

/** The command that helps; one that stands for all of them where there are several. */
export function helpFor(need: Need, names: readonly string[]): string {
  const who = names.length === 1 ? names[0] : "NAME";
  const attach = `overseer attach ${who}`;
  return need === "answer" ? attach : `overseer nudge ${who} "go on", or ${attach}`;
}

/** A live worker whose worktree was removed: whoever resumes it makes it anew from its branch. */
export function renewWorktree(name: string): string {
  return `overseer stop ${name} && overseer resume ${name}`;
}
