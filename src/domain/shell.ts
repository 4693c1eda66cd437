/** What a word may be made of without running anything. */
export type Variables = Readonly<Record<string, string | undefined>>;

export interface Word {
  /** Without its quotes. */
  text: string;
  /** False where a part is only known once it runs: another variable, a substitution. */
  isKnown: boolean;
}

export interface ShellCommand {
  kind: "command";
  words: Word[];
  /** `NAME=value` before the command. */
  settings: Word[];
  /** The files that its redirections write to. */
  writes: Word[];
  /** What a here-document or a here-string gives it to read. */
  input: string | null;
}

/** `enter` and `leave` are the brackets of a subshell: what happens to the current folder in it stays in it. */
export type ShellStep = ShellCommand | { kind: "enter" } | { kind: "leave" };

const MAX_DEPTH = 40;
const KEYWORDS = new Set("if then else elif fi do done while until ! { } esac coproc".split(" "));

/**
 * The simple commands of a command line, in the order in which they stand. Where a text cannot be read on, what was
 * found so far is the answer: this serves guard-rails, and a shell that is stricter would not run the rest either.
 */
export function readShell(text: string, variables: Variables): ShellStep[] {
  return new Reader(text, variables, 0).all();
}

class Reader {
  #at = 0;
  readonly #steps: ShellStep[] = [];
  #command = emptyCommand();
  #documents: { end: string; isIndented: boolean; command: ShellCommand }[] = [];
  readonly #text: string;
  readonly #variables: Variables;
  #depth: number;

  constructor(text: string, variables: Variables, depth: number) {
    this.#text = text;
    this.#variables = variables;
    this.#depth = depth;
  }

  all(): ShellStep[] {
    this.#list(false);
    return this.#steps;
  }

  #list(isInner: boolean): void {
    const outer = this.#command;
    this.#command = emptyCommand();
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at] ?? "";
      if (char === ")") {
        this.#at++;
        if (isInner) break;
        this.#end();
      } else this.#next(char);
    }
    this.#end();
    this.#command = outer;
  }

  #next(char: string): void {
    switch (char) {
      case " ":
      case "\t":
      case "\r":
        this.#at++;
        return;
      case "\n":
        this.#end();
        this.#at++;
        this.#readDocuments();
        return;
      case "\\":
        if (this.#text[this.#at + 1] === "\n") {
          this.#at += 2;
          return;
        }
        break;
      case "#":
        this.#at = this.#find("\n", this.#at);
        return;
      case "(":
        this.#bracket();
        return;
      case "<":
      case ">":
        this.#redirection();
        return;
      case "&":
        if (this.#text[this.#at + 1] === ">") {
          this.#at++;
          this.#redirection();
          return;
        }
    }
    if (char === ";" || char === "&" || char === "|") {
      this.#end();
      this.#at++;
    } else this.#takeWord();
  }

  #end(): void {
    const { words, settings, writes } = this.#command;
    if (words.length + settings.length + writes.length > 0) this.#steps.push(this.#command);
    this.#command = emptyCommand();
  }

  #takeWord(): void {
    const before = this.#at;
    const word = this.#word();
    // A text that no word can be made of must not hold the reader up.
    if (this.#at === before) this.#at++;
    // As it is written: a quoted `if` is a command, and a quoted 2 an argument.
    const raw = this.#text.slice(before, this.#at);
    const { words, settings } = this.#command;
    const follows = this.#text[this.#at] ?? "";
    if ((follows === "<" || follows === ">") && /^\d+$/.test(raw)) return;
    if (words.length > 0) words.push(word);
    else if (/^[A-Za-z_]\w*\+?=/.test(raw)) {
      if (follows === "(" && raw.endsWith("=")) this.#skipArray();
      settings.push(word);
    } else if (!KEYWORDS.has(raw)) words.push(word);
  }

  #skipArray(): void {
    this.#at++;
    while (this.#at < this.#text.length && this.#text[this.#at] !== ")") {
      const before = this.#at;
      if (!/\s/.test(this.#text[this.#at] ?? "")) this.#word();
      if (this.#at === before) this.#at++;
    }
    this.#at++;
  }

  #bracket(): void {
    if (this.#command.words.length > 0) {
      // `name()` begins a function: what is in it is judged as if it were called.
      const close = /^\(\s*\)/.exec(this.#text.slice(this.#at, this.#at + 20));
      this.#command = emptyCommand();
      this.#at += close ? close[0].length : 1;
    } else if (this.#text[this.#at + 1] === "(") this.#at = this.#find("))", this.#at) + 2;
    else this.#subshell(1);
  }

  #subshell(opening: number): void {
    this.#at += opening;
    if (this.#depth >= MAX_DEPTH) {
      this.#giveUp();
      return;
    }
    this.#depth++;
    this.#steps.push({ kind: "enter" });
    this.#list(true);
    this.#steps.push({ kind: "leave" });
    this.#depth--;
  }

  #redirection(): void {
    const sign =
      /^(?:<<<|<<-|<<|<&|<>|<|>>|>&|>\||>)/.exec(this.#text.slice(this.#at, this.#at + 3))?.[0] ?? ">";
    if (sign.length === 1 && this.#text[this.#at + 1] === "(") {
      this.#subshell(2);
      return;
    }
    this.#at += sign.length;
    while (this.#text[this.#at] === " " || this.#text[this.#at] === "\t") this.#at++;
    const word = this.#word();
    if (sign === "<<" || sign === "<<-") {
      this.#documents.push({ end: word.text, isIndented: sign === "<<-", command: this.#command });
    } else if (sign === "<<<") this.#command.input = word.isKnown ? word.text : null;
    else if (sign.startsWith(">") && !(sign === ">&" && /^(?:\d+|-)$/.test(word.text))) {
      this.#command.writes.push(word);
    }
  }

  #readDocuments(): void {
    for (const { end, isIndented, command } of this.#documents) {
      const from = this.#at;
      for (;;) {
        const stop = this.#find("\n", this.#at);
        const line = this.#text.slice(this.#at, stop);
        const isEnd = (isIndented ? line.replace(/^\t+/, "") : line) === end;
        if (isEnd || stop >= this.#text.length) {
          command.input = this.#text.slice(from, isEnd ? this.#at : stop);
          this.#at = stop + 1;
          break;
        }
        this.#at = stop + 1;
      }
    }
    this.#documents = [];
  }

  #word(): Word {
    const word: Word = { text: "", isKnown: true };
    if (this.#text[this.#at] === "~") this.#tilde(word);
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at] ?? "";
      if (" \t\r\n;&|<>()".includes(char)) break;
      if (char === "'") word.text += this.#upTo("'");
      else if (char === '"') this.#doubleQuoted(word);
      else if (char === "\\") {
        if (this.#text[this.#at + 1] !== "\n") word.text += this.#text[this.#at + 1] ?? "";
        this.#at += 2;
      } else if (char === "$") this.#dollar(word, false);
      else if (char === "`") this.#backticks(word);
      else {
        word.text += char;
        this.#at++;
      }
    }
    return word;
  }

  #tilde(word: Word): void {
    const home = this.#variables.HOME;
    const follows = this.#text[this.#at + 1] ?? " ";
    if (!"/ \t\n;&|)".includes(follows)) word.isKnown = !/[\w+-]/.test(follows);
    else if (home !== undefined) {
      word.text = home;
      this.#at++;
    }
  }

  #doubleQuoted(word: Word): void {
    this.#at++;
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at] ?? "";
      if (char === '"') {
        this.#at++;
        return;
      }
      if (char === "$") this.#dollar(word, true);
      else if (char === "`") this.#backticks(word);
      else if (char === "\\" && '"\\$`\n'.includes(this.#text[this.#at + 1] ?? " ")) {
        if (this.#text[this.#at + 1] !== "\n") word.text += this.#text[this.#at + 1] ?? "";
        this.#at += 2;
      } else {
        word.text += char;
        this.#at++;
      }
    }
  }

  #dollar(word: Word, isQuoted: boolean): void {
    const follows = this.#text[this.#at + 1] ?? "";
    if (follows === "(") {
      word.isKnown = false;
      if (this.#text[this.#at + 2] === "(") this.#at = this.#find("))", this.#at) + 2;
      else this.#subshell(2);
    } else if (follows === "{") this.#expand(word, this.#braced());
    else if (/[A-Za-z_]/.test(follows)) {
      const name = /^\w+/.exec(this.#text.slice(this.#at + 1, this.#at + 100))?.[0] ?? "";
      this.#at += 1 + name.length;
      this.#expand(word, name);
    } else if (!isQuoted && (follows === "'" || follows === '"')) {
      this.#at++;
      if (follows === "'") word.text += this.#upTo("'");
      else this.#doubleQuoted(word);
    } else if (/[\d@*#?$!-]/.test(follows)) {
      this.#at += 2;
      this.#expand(word, follows);
    } else {
      word.text += "$";
      this.#at++;
    }
  }

  #braced(): string {
    const from = this.#at + 2;
    let open = 1;
    for (let at = from; at < this.#text.length; at++) {
      if (this.#text[at] === "{") open++;
      else if (this.#text[at] === "}") open--;
      if (open > 0) continue;
      this.#at = at + 1;
      return this.#text.slice(from, at);
    }
    this.#giveUp();
    return "";
  }

  #expand(word: Word, name: string): void {
    const value = Object.hasOwn(this.#variables, name) ? this.#variables[name] : undefined;
    if (value === undefined) {
      word.isKnown = false;
      word.text += `\${${name}}`;
    } else word.text += value;
  }

  #backticks(word: Word): void {
    word.isKnown = false;
    let inner = "";
    let at = this.#at + 1;
    for (; at < this.#text.length && this.#text[at] !== "`"; at++) {
      if (this.#text[at] === "\\" && "`\\$".includes(this.#text[at + 1] ?? " ")) at++;
      inner += this.#text[at] ?? "";
    }
    this.#at = at + 1;
    if (this.#depth >= MAX_DEPTH) return;
    const steps = new Reader(inner, this.#variables, this.#depth + 1).all();
    this.#steps.push({ kind: "enter" }, ...steps, { kind: "leave" });
  }

  /** What stands between the quote here and the next one. */
  #upTo(quote: string): string {
    const from = this.#at + 1;
    const end = this.#find(quote, from);
    this.#at = end + 1;
    return this.#text.slice(from, end);
  }

  #find(what: string, from: number): number {
    const found = this.#text.indexOf(what, from);
    return found === -1 ? this.#text.length : found;
  }

  #giveUp(): void {
    this.#at = this.#text.length;
  }
}

function emptyCommand(): ShellCommand {
  return { kind: "command", words: [], settings: [], writes: [], input: null };
}
