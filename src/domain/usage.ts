import { parseObject } from "./hook-payload.ts";
import { costOf, type Tokens } from "./pricing.ts";

/** One answer of a model, as a transcript tells of it. */
export interface Answer {
  messageId: string;
  requestId: string;
  /** When it was written down; null where the line does not say. */
  at: number | null;
  model: string;
  tokens: Tokens;
  /** In USD; null when no price is known for it. */
  cost: number | null;
}

/**
 * What a line of a transcript says of an answer, null when it is about something else. An answer has a line for each of
 * its content blocks, and only the last one has the final numbers.
 */
export function readAnswer(line: string): Answer | "damaged" | null {
  const entry = parseObject(line);
  if (entry === null) return "damaged";
  const message = entry.type === "assistant" ? objectIn(entry.message) : null;
  const usage = message && objectIn(message.usage);
  if (!message || !usage || entry.isApiErrorMessage === true) return null;
  const model = textIn(message.model);
  const messageId = textIn(message.id) ?? textIn(entry.uuid);
  // Claude Code's own words, such as an error's, are an answer of no model.
  if (model === null || model === "<synthetic>" || messageId === null) return null;
  const at = Date.parse(textIn(entry.timestamp) ?? "");
  const tokens = tokensIn(usage);
  return {
    messageId,
    requestId: textIn(entry.requestId) ?? "",
    at: Number.isNaN(at) ? null : at,
    model,
    tokens,
    cost: isAtListPrice(usage) ? costOf(model, tokens, searchesIn(usage)) : null,
  };
}

function tokensIn(usage: Record<string, unknown>): Tokens {
  const written = countIn(usage.cache_creation_input_tokens);
  const cacheWrite1h = countIn(objectIn(usage.cache_creation)?.ephemeral_1h_input_tokens);
  return {
    input: countIn(usage.input_tokens),
    output: countIn(usage.output_tokens),
    cacheRead: countIn(usage.cache_read_input_tokens),
    cacheWrite5m: Math.max(0, written - cacheWrite1h),
    cacheWrite1h,
  };
}

/** Fast mode, another service tier or a place of one's choice costs more or less than what the list says. */
function isAtListPrice({
  speed,
  service_tier: tier,
  inference_geo: place,
}: Record<string, unknown>): boolean {
  const isPlain = (value: unknown, plain: readonly string[]) =>
    typeof value !== "string" || value === "" || plain.includes(value);
  return (
    isPlain(speed, ["standard"]) && isPlain(tier, ["standard"]) && isPlain(place, ["global", "not_available"])
  );
}

function searchesIn(usage: Record<string, unknown>): number {
  return countIn(objectIn(usage.server_tool_use)?.web_search_requests);
}

function objectIn(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null ? { ...value } : null;
}

function textIn(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function countIn(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

export function answerKey({ messageId, requestId }: Pick<Answer, "messageId" | "requestId">): string {
  return `${messageId} ${requestId}`;
}

/** Of two readings of one answer, the one that counts: the later, unless it was cut off earlier in the answer. */
export function laterOf<T extends Pick<Answer, "tokens">>(earlier: T | undefined, later: T): T {
  return earlier !== undefined && earlier.tokens.output > later.tokens.output ? earlier : later;
}

/** Answers, added up. */
export interface Usage {
  answers: number;
  tokens: Tokens;
  /** Of the answers that have a price. */
  cost: number;
  /** The models of those that have none. */
  unpriced: readonly string[];
  /** How many answers have a price. */
  priced: number;
}

export const NO_USAGE: Usage = {
  answers: 0,
  tokens: { input: 0, output: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0 },
  cost: 0,
  unpriced: [],
  priced: 0,
};

export function usageOf({ tokens, cost, model }: Pick<Answer, "tokens" | "cost" | "model">): Usage {
  return {
    answers: 1,
    tokens,
    cost: cost ?? 0,
    unpriced: cost === null ? [model] : [],
    priced: cost === null ? 0 : 1,
  };
}

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    answers: a.answers + b.answers,
    tokens: combine(a.tokens, b.tokens, (x, y) => x + y),
    cost: a.cost + b.cost,
    unpriced: [...new Set([...a.unpriced, ...b.unpriced])],
    priced: a.priced + b.priced,
  };
}

/** What is left when an answer that was counted is taken out again, for a later reading of it. */
export function withoutAnswer(sum: Usage, answer: Pick<Answer, "tokens" | "cost" | "model">): Usage {
  const one = usageOf(answer);
  return {
    answers: sum.answers - 1,
    tokens: combine(sum.tokens, one.tokens, (x, y) => x - y),
    cost: sum.cost - one.cost,
    unpriced: sum.unpriced,
    priced: sum.priced - one.priced,
  };
}

function combine(a: Tokens, b: Tokens, by: (x: number, y: number) => number): Tokens {
  return {
    input: by(a.input, b.input),
    output: by(a.output, b.output),
    cacheRead: by(a.cacheRead, b.cacheRead),
    cacheWrite5m: by(a.cacheWrite5m, b.cacheWrite5m),
    cacheWrite1h: by(a.cacheWrite1h, b.cacheWrite1h),
  };
}

/**
 * Whose answer it is, of sessions in the order of their starts. Several incarnations of a worker may go on with one
 * transcript, each until the next begins; what was said before the first of them, in a conversation that overseer had no
 * part in, is nobody's.
 */
export function speakerOf<T extends { startedAt: number }>(
  owners: readonly T[],
  at: number | null,
): T | null {
  return owners.findLast(({ startedAt }) => at === null || startedAt <= at) ?? null;
}
