/** What one answer of a model used. Cache writes are kept apart by how long they last: the longer ones cost more. */
export interface Tokens {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite5m: number;
  cacheWrite1h: number;
}

/** USD for a million tokens. Writing to the cache is priced as a multiple of the input, reading from it is not always. */
interface Rate {
  input: number;
  output: number;
  cacheRead: number;
  /** Above so many tokens in its prompt, cached ones included, all of an answer costs this many times as much. */
  long?: { above: number; times: number };
}

const CACHE_WRITE_5M = 1.25;
const CACHE_WRITE_1H = 2;
const WEB_SEARCH_USD = 0.01;

/**
 * The list prices of Anthropic's own API, as of November 2026 (platform.claude.com/docs/en/about-claude/pricing), by the
 * name of the model without its date.
 */
const RATES: Readonly<Record<string, Rate>> = {
  "claude-fable-5-1": { input: 10, output: 50, cacheRead: 0.25 },
  "claude-mythos-5-1": { input: 10, output: 50, cacheRead: 0.25 },
  "claude-fable-5": { input: 10, output: 50, cacheRead: 1 },
  "claude-mythos-5": { input: 10, output: 50, cacheRead: 1 },
  "claude-opus-5-5": { input: 4, output: 20, cacheRead: 0.2 },
  "claude-opus-5": { input: 5, output: 25, cacheRead: 0.5 },
  "claude-opus-4-8": { input: 5, output: 25, cacheRead: 0.5 },
  "claude-opus-4-7": { input: 5, output: 25, cacheRead: 0.5 },
  "claude-opus-4-6": { input: 5, output: 25, cacheRead: 0.5 },
  "claude-opus-4-5": { input: 5, output: 25, cacheRead: 0.5 },
  "claude-opus-4-1": { input: 15, output: 75, cacheRead: 1.5 },
  "claude-opus-4": { input: 15, output: 75, cacheRead: 1.5 },
  "claude-sonnet-5-5": { input: 2, output: 10, cacheRead: 0.1 },
  "claude-sonnet-5": { input: 2, output: 10, cacheRead: 0.2 },
  "claude-sonnet-4-6": { input: 3, output: 15, cacheRead: 0.3 },
  "claude-sonnet-4-5": { input: 3, output: 15, cacheRead: 0.3 },
  "claude-sonnet-4": { input: 3, output: 15, cacheRead: 0.3 },
  "claude-haiku-5-5": { input: 0.1, output: 0.5, cacheRead: 0.01, long: { above: 100_000, times: 5 } },
  "claude-haiku-4-5": { input: 1, output: 5, cacheRead: 0.1 },
  "claude-3-5-haiku": { input: 0.8, output: 4, cacheRead: 0.08 },
};

/** In USD. Null for a model that is not in the list: a guess would look like a fact. */
export function costOf(model: string, tokens: Tokens, webSearches: number): number | null {
  const name = model.replace(/-\d{8}$/, "");
  const rate = Object.hasOwn(RATES, name) ? RATES[name] : undefined;
  if (rate === undefined) return null;
  const { input, output, cacheRead, cacheWrite5m, cacheWrite1h } = tokens;
  const prompt = input + cacheRead + cacheWrite5m + cacheWrite1h;
  const times = rate.long !== undefined && prompt > rate.long.above ? rate.long.times : 1;
  const fresh = input + cacheWrite5m * CACHE_WRITE_5M + cacheWrite1h * CACHE_WRITE_1H;
  const million = fresh * rate.input + output * rate.output + cacheRead * rate.cacheRead;
  return (million * times) / 1_000_000 + webSearches * WEB_SEARCH_USD;
}
