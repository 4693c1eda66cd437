const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec";

/**
 * When a limit ends, from Claude Code's words: "You've hit your limit · resets 1:04pm (UTC)", or "resets Nov 21, 10am
 * (Asia/Kolkata)". They leave the seconds out, so this is the end of that minute. Null when they say nothing of it.
 */
export function limitEnd(words: string, now: number): number | null {
  const found =
    /resets (?:([A-Z][a-z]{2}) (\d{1,2}), )?(\d{1,2})(?::(\d{2}))?([ap])m(?: \(([\w/+-]+)\))?/.exec(words);
  if (!found) return null;
  const [, month, day, hour, minute = "0", half, zone = "UTC"] = found;
  const offset = zoneOffset(zone, now);
  if (offset === null) return null;
  const here = new Date(now + offset);
  const hours = (Number(hour) % 12) + (half === "p" ? 12 : 0);
  const date = month === undefined ? here.getUTCDate() : Number(day);
  const inMonth = month === undefined ? here.getUTCMonth() : MONTHS.indexOf(month) / 3;
  const at = (year: number) => Date.UTC(year, inMonth, date, hours, Number(minute)) - offset + MINUTE_MS;
  const end = at(here.getUTCFullYear());
  if (end >= now) return end;
  return month === undefined ? end + DAY_MS : at(here.getUTCFullYear() + 1);
}

function zoneOffset(timeZone: string, now: number): number | null {
  try {
    const format = new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset" });
    const name = format.formatToParts(now).find(({ type }) => type === "timeZoneName")?.value ?? "";
    const [, sign, hours = "0", minutes = "0"] = /GMT(?:([+-])(\d+):(\d+))?/.exec(name) ?? [];
    return (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * MINUTE_MS;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
