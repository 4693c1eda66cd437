const GONE = "[redacted]";
/** Longer than what a pattern needs to see of a token, and than most passwords in a URL. */
const CUT_MARGIN = 64;
const ASSIGNMENT_WORDS = ["key", "token", "secret", "passw"];

// A token also begins where an escaped character, a colour or a percent code ends: the \\n of a JSON text is no letter of it.
const START = "(?:(?<![A-Za-z0-9])|(?<=\\\\[bfnrtv]|\\[[\\d;]{0,16}m|%[\\dA-Fa-f]{2}))";

/**
 * For mail and specs, whose text may be code: only what has the shape of a token goes. Each pattern is made only when a
 * word that is part of whatever it matches is there: making and running it for the first time costs a hook much more
 * than looking for the word, and most texts have none. No pattern may take more than linear time: mail has 64 KB.
 */
export function redactTokens(text: string): string {
  let clean = text;
  const remove = (words: readonly string[], shape: string) => {
    if (includesAny(clean, words)) clean = clean.replace(new RegExp(shape, "g"), GONE);
  };
  remove(
    ["PRIVATE KEY"],
    "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[\\s\\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----|$)",
  );
  remove(["sk-"], `${START}sk-(?:ant-[A-Za-z0-9_-]+|[A-Za-z0-9_-]{16,})`);
  remove(["github_pat_"], `${START}github_pat_[A-Za-z0-9_]+`);
  remove(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], `${START}gh[pousr]_[A-Za-z0-9]+`);
  remove(["AKIA", "ASIA", "AGPA", "AIDA", "AROA"], `${START}(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}`);
  remove(["xox", "xapp-"], `${START}x(?:ox[a-z]|app)-[A-Za-z0-9-]{8,}`);
  remove(["hooks.slack.com"], "https://hooks\\.slack\\.com/services/[A-Za-z0-9/_-]+");
  remove(["AIza"], `${START}AIza[A-Za-z0-9_-]{20,}`);
  remove(["ya29."], `${START}ya29\\.[A-Za-z0-9_.-]{10,}`);
  remove(["eyJ"], `${START}eyJ[A-Za-z0-9_-]{8,2048}\\.[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]*`);
  return redactCredentials(clean);
}

/** After `Authorization:` whatever is there; elsewhere only what no word looks like, such as "basic authentication". */
function redactCredentials(text: string): string {
  if (!includesAny(text.toLowerCase(), ["bearer", "basic"])) return text;
  return text.replace(
    /(authorization\W{1,8})?(bearer|basic)(\s+)([A-Za-z0-9._~+/=-]{8,})/gi,
    (whole, header = "", scheme, space, credential) =>
      header !== "" || looksRandom(credential) ? `${header}${scheme}${space}${GONE}` : whole,
  );
}

function looksRandom(text: string): boolean {
  return /^(?=.*\d).{12}|=$|[A-Za-z]{20}|[a-z][A-Z].*[a-z][A-Z]/.test(text);
}

/** For logs and what the ledger keeps of tool calls. */
export function redact(text: string): string {
  let clean = redactTokens(text);
  if (clean.includes("://")) clean = clean.replace(/(:\/\/[^\s/:@]*:)[^\s/"']+@/g, `$1${GONE}@`);
  const lower = clean.toLowerCase();
  if (lower.includes("bearer")) clean = clean.replace(/(bearer\s+)[A-Za-z0-9._~+/=-]{8,}/gi, `$1${GONE}`);
  return includesAny(lower, ASSIGNMENT_WORDS) ? redactAssignments(clean) : clean;
}

/**
 * `NAME_KEY=x`, `"api_token": "x"`, `password: x`, `--password x`, `API_KEY: string = "x"`: the name stays, the value
 * goes, to the very end where its closing quote was cut off. The pattern begins at the end of the name: one that began
 * with the whole name would take quadratic time on long words.
 */
function redactAssignments(text: string): string {
  const name = "(?:(?:[_-]|api|access|private|secret)key|token|secret|passwd|password)";
  const sign = "\\\\*[\"'`]?\\]?\\s*(?:!==?|[:=]=*>?)";
  const type = "(?:(?<=:\\s{0,4})[^\"'`=\\n]{1,60}=\\s*)?";
  const quoted = '\\\\*"[^"\\\\]*(?:\\\\[\\s\\S][^"\\\\]*)*\\\\?(?:"|$)|\\\\*\'[^\']*(?:\'|$)|`[^`]*(?:`|$)';
  const option = "--(?:password|token|api-key|secret)\\b";
  const assignment = `((?:${name}${sign}|${option})\\s*)${type}(?:${quoted}|[^\\s,;&|)}\\]"']+)`;
  return text.replace(new RegExp(assignment, "gi"), `$1${GONE}`);
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
    const isSecret = isRedacting && canBeSecret(item) && isSecretName(key);
    clean[cleanText(key, 200, isRedacting)] = isSecret ? GONE : cleanValue(item, bounds, isRedacting);
  }
  return clean;
}

function canBeSecret(item: unknown): boolean {
  return (typeof item === "string" && item !== "") || typeof item === "number" || Array.isArray(item);
}

function isSecretName(key: string): boolean {
  if (!includesAny(key.toLowerCase(), ASSIGNMENT_WORDS)) return false;
  return /(?:^|[_-]|access|private|secret)key$|(?:token|secret)$|api[_-]?key|passwd|password/i.test(key);
}

function includesAny(text: string, words: readonly string[]): boolean {
  for (const word of words) if (text.includes(word)) return true;
  return false;
}

export function cleanText(text: string, maxText: number, isRedacting: boolean): string {
  if (!isRedacting) return shortened(text, text, maxText);
  if (text.length <= maxText * 4) return shortened(redact(text), text, maxText);
  // A secret that begins before the cut is matched whole, because the margin beyond it is still there; one that the
  // margin itself cuts in two would not be known as one, and comes near when much before it was redacted.
  const near = redact(text.slice(0, maxText * 4));
  return shortened(near.slice(0, Math.max(0, near.length - CUT_MARGIN)), text, maxText);
}

function shortened(clean: string, text: string, maxText: number): string {
  const isCut = clean.length > maxText || text.length > maxText * 4;
  return isCut ? `${clean.slice(0, maxText)}... [${text.length} characters]` : clean;
}
