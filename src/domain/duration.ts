const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;

const WRITTEN = /^(\d{1,15})(d|h|m|s|ms)$/;

/** "30s" is 30000. One number and one unit, so that a duration is written in one way; anything else is null. */
export function parseDuration(text: string): number | null {
  const [, digits, letters] = WRITTEN.exec(text) ?? [];
  const unit = UNITS.find(([name]) => name === letters);
  if (digits === undefined || unit === undefined) return null;
  const ms = Number(digits) * unit[1];
  return Number.isSafeInteger(ms) ? ms : null;
}

/** At most two neighbouring units, rounded down: "2m 5s", "3h", "1d 4h", "500ms". A negative age (the clock stepped back) is "0s". */
export function formatDuration(ms: number): string {
  const first = UNITS.findIndex(([, size]) => ms >= size);
  const largest = UNITS[first];
  if (largest === undefined) return "0s";
  const next = UNITS[first + 1];
  const whole = `${Math.floor(ms / largest[1])}${largest[0]}`;
  // Milliseconds beside seconds would be noise in an age.
  if (next === undefined || next[0] === "ms") return whole;
  const rest = Math.floor((ms % largest[1]) / next[1]);
  return rest === 0 ? whole : `${whole} ${rest}${next[0]}`;
}

/** How long ago, in whole seconds: nobody wants to know more. */
export function formatAge(ms: number): string {
  return formatDuration(Math.floor(ms / 1000) * 1000);
}
