export interface UntilOptions {
  timeoutMs?: number;
  everyMs?: number;
}

/** Waits until `condition` gives something truthy and returns it; past the deadline the error says what was awaited. */
export async function until<T>(
  description: string,
  condition: () => T | Promise<T>,
  { timeoutMs = 10_000, everyMs = 20 }: UntilOptions = {},
): Promise<Exclude<T, false | null | undefined>> {
  const deadline = performance.now() + timeoutMs;
  while (true) {
    const outcome = await condition();
    if (isMet(outcome)) return outcome;
    if (performance.now() >= deadline) throw new Error(`waited ${timeoutMs} ms in vain until ${description}`);
    await Bun.sleep(everyMs);
  }
}

function isMet<T>(outcome: T): outcome is Exclude<T, false | null | undefined> {
  return outcome !== false && outcome !== null && outcome !== undefined;
}
