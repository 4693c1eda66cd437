/** The steps of a spawn, in order. Each is noted before it is done, so that whoever finds it half-made knows how far. */
export const SPAWN_STEPS = ["reserve", "worktree", "prepare", "claim", "launch", "confirm"] as const;
export type SpawnStep = (typeof SPAWN_STEPS)[number];

/** `step` is what was noted, whoever noted it. */
export function hasReached(step: unknown, milestone: SpawnStep): boolean {
  return (
    SPAWN_STEPS.some((known) => known === step) &&
    SPAWN_STEPS.indexOf(step as SpawnStep) >= SPAWN_STEPS.indexOf(milestone)
  );
}

const TOLERATED_FAILURES = 3;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 5 * 60_000;
const FORGOTTEN_AFTER_MS = 30 * 60_000;

/**
 * How long the next spawn must wait: after three failures in a row something about the machine is wrong, and trying
 * faster only makes it worse. `outcomes` are the latest, newest first.
 */
export function spawnPause(outcomes: readonly { isFailure: boolean; at: number }[], now: number): number {
  const isRecent = ({ at }: { at: number }) => now - at < FORGOTTEN_AFTER_MS;
  const firstGood = outcomes.findIndex((outcome) => !outcome.isFailure || !isRecent(outcome));
  const failures = firstGood === -1 ? outcomes.length : firstGood;
  const [latest] = outcomes;
  if (latest === undefined || failures < TOLERATED_FAILURES) return 0;
  const pause = Math.min(FIRST_PAUSE_MS * 2 ** (failures - TOLERATED_FAILURES), LONGEST_PAUSE_MS);
  // A clock that was set back must not make it longer.
  return Math.max(0, Math.min(latest.at, now) + pause - now);
}

interface Worker {
  name: string;
  capability: string;
  taskId: string;
  title: string;
}

/** The rest stands in the worker's instructions; a short prompt is one that a person can read in the pane. */
export function firstPrompt({ name, capability, taskId, title }: Worker): string {
  return `You are ${name}, a ${capability}. Your task is ${taskId}: ${oneLine(title)}. Your instructions are in your context. Begin.`;
}

export function resumePrompt({ name, capability, taskId, title }: Worker): string {
  return `You are ${name}, a ${capability}, and were interrupted at ${taskId}: ${oneLine(title)}. Look at what is done already (git status, git log), then go on.`;
}

/** For a worker whose branch was not taken as it is. */
export function heldPrompt({ name, capability, taskId }: Worker, why: string): string {
  return `You are ${name}, a ${capability}. You had finished ${taskId}, but your branch is held: ${oneLine(why)}. Put that right, commit, and close your task again.`;
}

function oneLine(text: string): string {
  return text
    .replaceAll(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, 200);
}
