import { OverseerError } from "../domain/errors.ts";
import { printable } from "../domain/mail.ts";

export interface Style {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
}

export interface Streams {
  stdout(text: string): void;
  stderr(text: string): void;
  /** Resolves when a reader has taken everything, or the disk; a pipe that nobody empties keeps it waiting. */
  flushed(): Promise<void>;
  isTerminal: boolean;
  isErrorTerminal: boolean;
  /** How wide the terminal is, where there is one. */
  columns?: number | undefined;
}

const same = (text: string) => text;
const PLAIN: Style = { bold: same, dim: same, red: same, green: same, yellow: same, cyan: same };

/** The only mouth: results on stdout, as text or as one JSON envelope, everything else on stderr. */
export class Output {
  readonly style: Style;
  readonly isJson: boolean;
  /** Somebody sees what is printed. */
  readonly isOnTerminal: boolean;
  /** Somebody sees at once what is said beside the result. */
  readonly isErrorOnTerminal: boolean;
  /** How much of a line can be seen; infinite where no terminal cuts it. */
  readonly columns: number;
  readonly #command: string;
  readonly #streams: Streams;
  readonly #errorStyle: Style;

  private constructor(streams: Streams, command: string, isJson: boolean, colour: Style) {
    this.#streams = streams;
    this.#command = command;
    this.isJson = isJson;
    this.isOnTerminal = streams.isTerminal;
    this.isErrorOnTerminal = streams.isErrorTerminal;
    this.columns = streams.columns || Number.POSITIVE_INFINITY;
    this.style = streams.isTerminal ? colour : PLAIN;
    this.#errorStyle = streams.isErrorTerminal ? colour : PLAIN;
  }

  static async open(streams: Streams, command: string, isJson: boolean, hasColour: boolean): Promise<Output> {
    // Loaded only where somebody sees it: chalk takes longer to load than most commands take to run.
    const isSeen = hasColour && !isJson && (streams.isTerminal || streams.isErrorTerminal);
    const colour = isSeen ? new (await import("chalk")).Chalk({ level: 1 }) : PLAIN;
    return new Output(streams, command, isJson, colour);
  }

  /** The result: `data` for machines, the text for people. Nothing is printed for an empty text. */
  done(data: unknown, text: (style: Style) => string): void {
    const words = this.isJson ? JSON.stringify({ ok: true, command: this.#command, data }) : text(this.style);
    if (words !== "") this.#streams.stdout(words.endsWith("\n") ? words : `${words}\n`);
  }

  /** A piece of a result that goes on, such as `events --follow`: one JSON object a line, or text. */
  line(data: unknown, text: (style: Style) => string): void {
    this.#streams.stdout(`${this.isJson ? JSON.stringify(data) : text(this.style)}\n`);
  }

  /** An empty screen, where there is one. */
  clear(): void {
    if (this.isOnTerminal && !this.isJson) this.#streams.stdout("\u001b[H\u001b[2J\u001b[3J");
  }

  /** Exactly these characters, as a hook prints them. */
  raw(text: string): void {
    this.#streams.stdout(text);
  }

  /** For what must not happen before the reader has the result. */
  async flushed(): Promise<void> {
    await this.#streams.flushed();
  }

  /** Something beside the result that whoever called should know. */
  note(line: string): void {
    this.#streams.stderr(`${this.#errorStyle.yellow("overseer:")} ${printable(line)}\n`);
  }

  /** What may be good to know and asks for nothing; never beside JSON. */
  aside(line: string): void {
    if (!this.isJson) this.#streams.stderr(`${this.#errorStyle.dim(printable(line))}\n`);
  }

  failed(error: unknown): void {
    const { code, message, hint } = inWords(error);
    if (this.isJson) {
      const told = { code, message, ...(hint === undefined ? {} : { hint }) };
      this.#streams.stdout(`${JSON.stringify({ ok: false, command: this.#command, error: told })}\n`);
    } else {
      // Both may repeat what was typed or what a file says.
      const told = printable(message);
      const lines = hint === undefined ? [told] : [told, this.#errorStyle.dim(`next: ${printable(hint)}`)];
      this.#streams.stderr(`${this.#errorStyle.red("overseer:")} ${lines.join("\n  ")}\n`);
    }
  }
}

function inWords(error: unknown): { code: string; message: string; hint?: string | undefined } {
  if (error instanceof OverseerError) return { code: error.code, message: error.message, hint: error.hint };
  const message = error instanceof Error ? error.message : String(error);
  return {
    code: "internal",
    message: `something went wrong inside overseer: ${message}`,
    hint: "overseer doctor; the details are in .overseer/logs/errors.log",
  };
}
