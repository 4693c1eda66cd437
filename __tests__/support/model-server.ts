import { z } from "zod";
import { until } from "./until.ts";

export type Pattern = string | RegExp;

const errors: Record<number, string> = { 400: "invalid_request", 429: "rate_limit", 529: "overloaded" };
const defaultUsage = {
  input_tokens: 10,
  output_tokens: 5,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
export type Usage = Partial<typeof defaultUsage>;
type ContentReply = { kind: "content"; blocks: ReplyBlock[]; usage: Usage };
type Reply = ContentReply | { kind: "error"; status: number; body: object; headers: Record<string, string> };
type ReplyBlock = { type: "text"; text: string } | { type: "tool_use"; name: string; input: object };

interface Turn {
  expectations: Expectation[];
  gates: string[];
  reply: Reply;
}

interface Expectation {
  pattern: Pattern;
  /** How often exactly; at least once if undefined. */
  times: number | undefined;
}

const maybe = z.string().optional();
const block = z.looseObject({ type: z.string(), text: maybe, id: maybe, content: z.unknown().optional() });
const asBlocks = (text: string): z.infer<typeof block>[] => [{ type: "text", text }];
const content = z.union([z.string().transform(asBlocks), z.array(block)]);
const messagesBody = z.looseObject({
  model: z.string(),
  stream: z.boolean().default(false),
  system: content.default([]),
  messages: z.array(z.object({ role: z.string(), content })),
  tools: z.array(z.looseObject({ name: z.string() })).default([]),
  metadata: z.looseObject({ user_id: z.string().default("") }).default({ user_id: "" }),
});
export type MessagesBody = z.infer<typeof messagesBody>;
type Block = MessagesBody["system"][number];

export interface ModelRequest {
  readonly body: MessagesBody;
  readonly sessionId: string;
  /** The quoted prompt pattern of the story that answers it, if any. */
  readonly story: string | undefined;
  /** Everything that the model is shown, without what the model itself said earlier. */
  readonly seen: string;
}

/** What one kind of prompt leads to. Each method returns the story, so that it reads as a sentence. */
export class Story {
  readonly turns: Turn[] = [];
  isOptional = false;
  epilogue: string | undefined;
  private expectations: Expectation[] = [];
  private gates: string[] = [];

  constructor(
    readonly pattern: Pattern,
    readonly begunBy: "prompt" | "mail" = "prompt",
  ) {}

  /** A turn: the model calls a tool. */
  uses(tool: string, input: object = {}): this {
    return this.turn({ kind: "content", blocks: [{ type: "tool_use", name: tool, input }], usage: {} });
  }

  /** A turn: the model starts a subagent, whose requests are told by the story of `prompt`. */
  usesAgent(prompt: string, input: object = {}): this {
    const defaults = { description: "help", subagent_type: "general-purpose", run_in_background: false };
    return this.uses("Agent", { ...defaults, prompt, ...input });
  }

  /** A turn: the model speaks, and that ends its turn. */
  says(text: string): this {
    return this.turn(speech(text));
  }

  /** One more tool call in the same answer as the `uses` or `says` before it. */
  and(tool: string, input: object = {}): this {
    this.lastContent("and").blocks.push({ type: "tool_use", name: tool, input });
    return this;
  }

  /** What the answer before it costs. */
  costing(usage: Usage): this {
    Object.assign(this.lastContent("costing").usage, usage);
    return this;
  }

  /** A turn: the API refuses once. claude is told not to retry, unless `headers` say otherwise. */
  fails(status: number, body: string | object = `scripted failure ${status}`, headers = {}): this {
    const type = `${errors[status] ?? "api"}_error`;
    const error = typeof body === "string" ? { type: "error", error: { type, message: body } } : body;
    const defaults = { "x-should-retry": "false" };
    return this.turn({ kind: "error", status, body: error, headers: { ...defaults, ...headers } });
  }

  /** The next request must show the model this, and exactly so many `times` if given. */
  expects(pattern: Pattern, { times }: { times?: number } = {}): this {
    this.expectations.push({ pattern, times });
    return this;
  }

  /** The next request must not show the model this. */
  expectsNot(pattern: Pattern): this {
    return this.expects(pattern, { times: 0 });
  }

  /** The next request is answered only once the test has called `model.release(name)`. */
  holds(name: string): this {
    this.gates.push(name);
    return this;
  }

  /** The story need be neither begun nor finished. */
  optional(): this {
    this.isOptional = true;
    return this;
  }

  /** Requests after the last turn are fine, and get this answer. */
  mayGoOn(text = "done"): this {
    this.epilogue = text;
    return this;
  }

  get name(): string {
    return quoted(this.pattern);
  }

  get hasLooseEnds(): boolean {
    return this.expectations.length > 0 || this.gates.length > 0;
  }

  /** How the ids of a turn's tool calls begin: history brings them back, and so tells the turn. */
  callId(turn: number): string {
    return `toolu_${Bun.hash(this.name).toString(36)}_${turn}_`;
  }

  private turn(reply: Reply): this {
    this.turns.push({ expectations: this.expectations, gates: this.gates, reply });
    this.expectations = [];
    this.gates = [];
    return this;
  }

  private lastContent(method: string) {
    const reply = this.turns.at(-1)?.reply;
    if (reply?.kind !== "content") throw new Error(`.${method}() belongs after .uses() or .says()`);
    return reply;
  }
}

/** One telling of a story: the same prompt may be given twice, and to several sessions. */
interface Telling {
  story: Story;
  sessionId: string;
  /** Error turns that were answered; history does not show them, so they must be remembered. */
  failed: Set<number>;
  isFinished: boolean;
}

type Gate = { opened: PromiseWithResolvers<void>; waiting: number };

export function startModel(tell: (model: Model) => void = () => {}): Model {
  const model = new Model();
  tell(model);
  return model;
}

/** A Messages API on loopback that answers from stories instead of thinking. */
export class Model implements AsyncDisposable {
  readonly requests: ModelRequest[] = [];
  readonly failures: string[] = [];
  /** What each answer in a conversation said that it used, whether its claude heard it or not. */
  readonly sent: Required<Usage>[] = [];
  readonly [Symbol.asyncDispose] = () => this.stop();
  private readonly stories: Story[] = [];
  private readonly tellings = new Map<string, Telling>();
  private readonly gates = new Map<string, Gate>();
  private readonly server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: (request) => this.route(request),
  });

  get url(): string {
    return `http://127.0.0.1:${this.server.port}`;
  }

  /**
   * Begins a story for the conversations in which a user text, outside tool results, matches. The last matching text
   * decides, so a later prompt or a Stop hook's reason can begin another story; of two stories that match the same
   * text, the one told first wins.
   */
  whenPrompt(pattern: Pattern): Story {
    const story = new Story(pattern);
    this.stories.push(story);
    return story;
  }

  /** The same for mail that a session is shown beside a prompt: what wakes it tells nothing of what has come. */
  whenMail(pattern: Pattern): Story {
    const story = new Story(pattern, "mail");
    this.stories.push(story);
    return story;
  }

  release(name: string): void {
    this.gate(name).opened.resolve();
  }

  /** Waits until a request stands at `.holds(name)`. */
  async untilHeld(name: string): Promise<void> {
    await until(`a request is held at ${name}`, () => this.gate(name).waiting > 0, { timeoutMs: 30_000 });
  }

  /** Throws with everything that went otherwise than told. */
  verify(): void {
    const begun = [...this.tellings.values()];
    const required = this.stories.filter((story) => !story.isOptional);
    const problems = [
      ...this.failures,
      ...required.flatMap((story) => {
        const tellings = begun.filter((one) => one.story === story);
        if (tellings.length === 0) return `story ${story.name} never began`;
        const unfinished = tellings.filter(({ isFinished }) => !isFinished);
        return unfinished.map(({ sessionId }) => `story ${story.name} was not finished by ${sessionId}`);
      }),
      ...this.stories.flatMap((one) => (one.hasLooseEnds ? `story ${one.name} ends without a turn` : [])),
    ];
    if (problems.length > 0) throw new Error(`the model's stories went wrong:\n- ${problems.join("\n- ")}`);
  }

  stop(): Promise<void> {
    return this.server.stop(true);
  }

  private async route(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname.endsWith("/count_tokens")) return Response.json({ input_tokens: 10 });
    if (request.method !== "POST" || pathname !== "/v1/messages") return Response.json({});
    const parsed = messagesBody.safeParse(await request.json());
    if (!parsed.success) {
      this.failures.push(`a request was not understood: ${z.prettifyError(parsed.error)}`);
      return Response.json({ type: "error", error: { type: "invalid_request_error" } }, { status: 400 });
    }
    const body = parsed.data;
    // Titles and the like: small calls beside the conversation, which repeat its prompt.
    if (body.tools.length === 0) return answer(body, speech("done"));
    return this.converse(body, request.signal);
  }

  private async converse(body: MessagesBody, gone: AbortSignal): Promise<Response> {
    const sessionId = /"session_id":"([^"]+)"/.exec(body.metadata.user_id)?.[1] ?? "unknown";
    const match = lastMatch(body, this.stories);
    const seen = seenText(body);
    this.requests.push({ body, sessionId, seen, story: match?.story.name });
    if (!match) {
      const prompt = body.messages.flatMap(promptTexts).at(-1);
      this.failures.push(`no story matches session ${sessionId}, whose last prompt is: ${prompt}`);
      return this.answer(body, speech("done"));
    }
    const { story, ordinal, said } = match;
    const telling = this.telling(story, sessionId, ordinal);
    const index = nextTurn(telling, said);
    const turn = story.turns[index];
    if (!turn) {
      if (story.epilogue === undefined) {
        this.failures.push(`story ${story.name} was over, but session ${sessionId} asked once more`);
      }
      return this.answer(body, speech(story.epilogue ?? "done"));
    }
    for (const name of turn.gates) await this.pass(name, gone);
    // Its claude was killed while it waited: nobody hears the answer, the resumed conversation asks again.
    if (gone.aborted) return new Response(null, { status: 499 });
    for (const { pattern, times } of turn.expectations) {
      const found = occurrences(seen, pattern);
      if (times === undefined ? found > 0 : found === times) continue;
      const wanted = `${quoted(pattern)} ${times === undefined ? "at least once" : `${times} times`}`;
      this.failures.push(`story ${story.name}, turn ${index + 1}: expected ${wanted}, found ${found}`);
    }
    telling.isFinished ||= index === story.turns.length - 1;
    if (turn.reply.kind === "content") return this.answer(body, turn.reply, story.callId(index));
    telling.failed.add(index);
    return Response.json(turn.reply.body, { status: turn.reply.status, headers: turn.reply.headers });
  }

  private answer(body: MessagesBody, reply: ContentReply, callId?: string): Response {
    this.sent.push({ ...defaultUsage, ...reply.usage });
    return answer(body, reply, callId);
  }

  private telling(story: Story, sessionId: string, ordinal: number): Telling {
    const key = `${sessionId} ${ordinal} ${story.name}`;
    const telling = this.tellings.get(key) ?? { story, sessionId, failed: new Set(), isFinished: false };
    this.tellings.set(key, telling);
    return telling;
  }

  private gate(name: string): Gate {
    const gate = this.gates.get(name) ?? { opened: Promise.withResolvers<void>(), waiting: 0 };
    this.gates.set(name, gate);
    return gate;
  }

  private async pass(name: string, gone: AbortSignal): Promise<void> {
    const gate = this.gate(name);
    const left = Promise.withResolvers<void>();
    gone.addEventListener("abort", () => left.resolve());
    gate.waiting++;
    await Promise.race([gate.opened.promise, left.promise]);
    gate.waiting--;
  }
}

function lastMatch(body: MessagesBody, stories: Story[]) {
  let match: { story: Story; ordinal: number; said: Block[] } | undefined;
  for (const message of body.messages) {
    if (message.role === "assistant") match?.said.push(...message.content);
    for (const { kind, text } of cues(message)) {
      const story = stories.find(
        ({ pattern, begunBy }) => begunBy === kind && occurrences(text, pattern) > 0,
      );
      if (story) match = { story, ordinal: (match?.ordinal ?? 0) + 1, said: [] };
    }
  }
  return match;
}

/** What may begin a story. */
function cues(message: MessagesBody["messages"][number]): { kind: Story["begunBy"]; text: string }[] {
  if (message.role !== "system") return promptTexts(message).map((text) => ({ kind: "prompt", text }));
  const texts = message.content.flatMap(({ text }) => (text?.includes("<overseer-mail ") ? text : []));
  return texts.map((text) => ({ kind: "mail", text }));
}

function promptTexts({ role, content }: MessagesBody["messages"][number]): string[] {
  return role === "user" ? content.flatMap(({ type, text }) => (type === "text" && text ? text : [])) : [];
}

/**
 * The place in a story is read from the history that the request brings, so a resumed conversation goes on where it
 * was. Only words of the story count: claude puts assistant messages of its own into what it resumes.
 */
function nextTurn({ story, failed }: Telling, said: Block[]): number {
  const skipFailed = (from: number): number => (failed.has(from) ? skipFailed(from + 1) : from);
  let next = skipFailed(0);
  for (const { id, text } of said) {
    const reply = story.turns[next]?.reply;
    if (reply?.kind !== "content") continue;
    const isCall = id?.startsWith(story.callId(next)) ?? false;
    const isSpeech = reply.blocks.every((one) => one.type === "text" && one.text.trim() === text?.trim());
    if (isCall || isSpeech) next = skipFailed(next + 1);
  }
  return next;
}

function seenText(body: MessagesBody): string {
  const shown = body.messages.filter(({ role }) => role !== "assistant").flatMap(({ content }) => content);
  return [...body.system, ...shown].map(blockText).join("\n");
}

function blockText(block: Block): string {
  if (block.text !== undefined) return block.text;
  const nested = content.safeParse(block.content);
  return nested.success ? nested.data.map(blockText).join("\n") : JSON.stringify(block);
}

function occurrences(text: string, pattern: Pattern): number {
  if (typeof pattern === "string") return text.split(pattern).length - 1;
  return [...text.matchAll(new RegExp(pattern, `${pattern.flags.replace("g", "")}g`))].length;
}

function quoted(pattern: Pattern): string {
  return typeof pattern === "string" ? JSON.stringify(pattern) : `${pattern}`;
}

function speech(text: string): ContentReply {
  return { kind: "content", blocks: [{ type: "text", text }], usage: {} };
}

function answer(body: MessagesBody, reply: ContentReply, callId = "toolu_"): Response {
  const nonce = crypto.randomUUID().slice(0, 8);
  const blocks = reply.blocks.map((one, index) =>
    one.type === "text" ? one : { ...one, id: `${callId}${index}_${nonce}` },
  );
  const usage = { ...defaultUsage, ...reply.usage };
  const stop_reason = blocks.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn";
  const stop = { stop_reason, stop_sequence: null };
  const message = { id: `msg_${nonce}`, type: "message", role: "assistant", model: body.model };
  if (!body.stream) return Response.json({ ...message, content: blocks, ...stop, usage });
  const start = { ...message, content: [], stop_reason: null, stop_sequence: null };
  const events = [
    { type: "message_start", message: { ...start, usage: { ...usage, output_tokens: 1 } } },
    ...blocks.flatMap(blockEvents),
    { type: "message_delta", delta: stop, usage },
    { type: "message_stop" },
  ];
  const stream = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  const headers = { "content-type": "text/event-stream", "request-id": `req_${nonce}` };
  return new Response(stream, { headers });
}

function blockEvents(block: ReplyBlock, index: number) {
  const opening = block.type === "text" ? { type: "text", text: "" } : { ...block, input: {} };
  const deltas =
    block.type === "text"
      ? (block.text.match(/\S*\s*/g) ?? []).filter(Boolean).map((text) => ({ type: "text_delta", text }))
      : [{ type: "input_json_delta", partial_json: JSON.stringify(block.input) }];
  return [
    { type: "content_block_start", index, content_block: opening },
    ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ];
}
