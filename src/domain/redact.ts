const GONE = "[redacted]";
const ASSIGNMENT_WORDS = ["key", "token", "secret", "passw"];

/**
 * For mail and specs, whose text may be code: only what has the shape of a token goes. Each pattern is made only when a
 * word that is part of whatever it matches is there: making and running it for the first time costs a hook much more
 * than looking for the word, and most texts have none.
 */
export function redactTokens(text: string): string {
  let clean = text;
  const remove = (words: readonly string[], shape: () => RegExp) => {
    if (includesAny(clean, words)) clean = clean.replace(shape(), GONE);
  };
  remove(
    ["PRIVATE KEY"],
    () => /-----BEGIN [A-Z0-9 ]*PRIVATE KEY[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|$)/g,
  );
  remove(["sk-"], () => /\bsk-(?:ant-[A-Za-z0-9_-]+|[A-Za-z0-9_-]{16,})/g);
  remove(["github_pat_"], () => /\bgithub_pat_[A-Za-z0-9_]+/g);
  remove(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], () => /\bgh[pousr]_[A-Za-z0-9]+/g);
  remove(["AKIA", "ASIA", "AGPA", "AIDA", "AROA"], () => /\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}/g);
  remove(["xox", "xapp-"], () => /\bx(?:ox[a-z]|app)-[A-Za-z0-9-]{8,}/g);
  remove(["hooks.slack.com"], () => /https:\/\/hooks\.slack\.com\/services\/[A-Za-z0-9/_-]+/g);
  remove(["AIza"], () => /\bAIza[A-Za-z0-9_-]{20,}/g);
  remove(["ya29."], () => /\bya29\.[A-Za-z0-9_.-]{10,}/g);
  remove(["eyJ"], () => /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g);
  return redactBearers(clean);
}

function redactBearers(text: string): string {
  if (!includesAny(text.toLowerCase(), ["bearer", "basic"])) return text;
  return text.replace(/\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}/gi, `$1$2${GONE}`);
}

/** For logs and what the ledger keeps of tool calls. */
export function redact(text: string): string {
  let clean = redactTokens(text);
  if (clean.includes("://")) clean = clean.replace(/(:\/\/[^\s/:@]*:)[^\s/@]+@/g, `$1${GONE}@`);
  return includesAny(clean.toLowerCase(), ASSIGNMENT_WORDS) ? redactAssignments(clean) : clean;
}

/**
 * `NAME_KEY=x`, `"api_token": "x"`, `password: x`, `--password x`: the name stays, the value goes. The pattern begins at
 * the end of the name: one that began with the whole name would take quadratic time on long words.
 */
function redactAssignments(text: string): string {
  const assignment =
    /((?:(?:[_-](?:key|token|secret)|apikey|passwd|password|\btoken)\\?["']?\s*(?:=>|[=:])|--(?:password|token|api-key|secret)\b)\s*)(\\?"(?:[^"\\]|\\.)*\\?"|'[^']*'|[^\s,;&|)}\]"']+)/gi;
  return text.replace(assignment, `$1${GONE}`);
}

export interface Bounds {
  maxText: number;
  maxItems: number;
  maxDepth: number;
}

/**
 * A bounded copy of any JSON value with every secret gone, also where only the key's name tells. Plain loops: each array
 * method costs a hook its own compilation the first time it is called.
 */
export function cleanValue(value: unknown, bounds: Bounds, isRedacting: boolean): unknown {
  if (typeof value === "string") return cleanText(value, bounds.maxText, isRedacting);
  if (typeof value !== "object" || value === null) return value;
  if (bounds.maxDepth <= 0) return "[deeper]";
  const inner = { ...bounds, maxDepth: bounds.maxDepth - 1 };
  return Array.isArray(value) ? cleanList(value, inner, isRedacting) : cleanObject(value, inner, isRedacting);
}

function cleanList(list: readonly unknown[], bounds: Bounds, isRedacting: boolean): unknown[] {
  const clean: unknown[] = [];
  for (const item of list) {
    if (clean.length === bounds.maxItems) return [...clean, `[${list.length - bounds.maxItems} more]`];
    clean.push(cleanValue(item, bounds, isRedacting));
  }
  return clean;
}

function cleanObject(object: object, bounds: Bounds, isRedacting: boolean): Record<string, unknown> {
  const clean: Record<string, unknown> = Object.create(null); // a key called __proto__ is only a key
  const keys = Object.keys(object);
  for (const key of keys) {
    if (Object.keys(clean).length === bounds.maxItems) {
      clean["..."] = `[${keys.length - bounds.maxItems} more]`;
      return clean;
    }
    const item: unknown = object[key as keyof typeof object];
    const isSecret = isRedacting && typeof item === "string" && item !== "" && isSecretName(key);
    clean[cleanText(key, 200, isRedacting)] = isSecret ? GONE : cleanValue(item, bounds, isRedacting);
  }
  return clean;
}

function isSecretName(key: string): boolean {
  if (!includesAny(key.toLowerCase(), ASSIGNMENT_WORDS)) return false;
  return /(?:^|[_-])(?:key|token|secret)$|apikey|api_key|accesskey|authtoken|passwd|password/i.test(key);
}

function includesAny(text: string, words: readonly string[]): boolean {
  for (const word of words) if (text.includes(word)) return true;
  return false;
}

export function cleanText(text: string, maxText: number, isRedacting: boolean): string {
  // A secret that begins before the cut is matched whole, because the margin beyond it is still there.
  const near = text.length > maxText * 4 ? text.slice(0, maxText * 4) : text;
  const clean = isRedacting ? redact(near) : near;
  return clean.length <= maxText ? clean : `${clean.slice(0, maxText)}... [${text.length} characters]`;
}
