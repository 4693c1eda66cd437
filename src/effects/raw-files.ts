/**
 * Appending to a log and reading standard input, for the hooks. Loading node:fs costs 1.5 ms, half of what starting Bun
 * costs; calling libc itself costs 0.6, and nothing while nobody asks. Whatever goes wrong here is done again with
 * node:fs, which tells why.
 */
const O_RDONLY_CLOEXEC = 0o2000000;
const O_WRONLY_CREAT_APPEND_CLOEXEC = 0o2002101;
const MODE = 0o644;
const CHUNK = 64 * 1024;

type Libc = NonNullable<ReturnType<typeof loadLibc>>;
let loaded: Libc | null | undefined;

function libc(): Libc | null {
  if (loaded === undefined) loaded = process.platform === "linux" ? loadLibc() : null;
  return loaded;
}

function loadLibc() {
  const { dlopen, ptr } = require("bun:ffi") as typeof import("bun:ffi");
  try {
    const { symbols } = dlopen("libc.so.6", {
      open: { args: ["ptr", "i32", "i32"], returns: "i32" },
      read: { args: ["i32", "ptr", "usize"], returns: "i32" },
      write: { args: ["i32", "ptr", "usize"], returns: "i32" },
      close: { args: ["i32"], returns: "i32" },
      readlink: { args: ["ptr", "ptr", "usize"], returns: "i32" },
      _exit: { args: ["i32"], returns: "void" },
    });
    return { ...symbols, ptr };
  } catch (error) {
    if (error instanceof Error) return null; // musl, or a system that forbids it: node:fs serves
    throw error;
  }
}

/** One write, so that the text stays whole however many processes append at once. */
export function appendWhole(file: string, text: string): void {
  const bytes = new TextEncoder().encode(text);
  const c = libc();
  const written = c ? appendQuickly(c, file, bytes) : 0;
  if (written < bytes.length) appendSlowly(file, bytes.subarray(written));
}

function appendQuickly(c: Libc, file: string, bytes: Uint8Array): number {
  const fd = c.open(c.ptr(cString(file)), O_WRONLY_CREAT_APPEND_CLOEXEC, MODE);
  if (fd < 0) return 0;
  const written = Number(c.write(fd, c.ptr(bytes), bytes.length));
  c.close(fd);
  return Math.max(0, written);
}

function appendSlowly(file: string, bytes: Uint8Array): void {
  const fs = process.getBuiltinModule("node:fs");
  fs.mkdirSync(file.slice(0, file.lastIndexOf("/")), { recursive: true });
  fs.appendFileSync(file, bytes, { mode: MODE });
}

/** Everything on standard input. Bytes that are not UTF-8 become replacement characters. */
export function readStdin(): string {
  return readToEnd(0) ?? process.getBuiltinModule("node:fs").readFileSync(0, "utf8");
}

/** A small file's text; null when there is none, or none that can be read. */
export function readText(file: string): string | null {
  const c = libc();
  if (!c) return readSlowly(file);
  const fd = c.open(c.ptr(cString(file)), O_RDONLY_CLOEXEC, 0);
  if (fd < 0) return null;
  const text = readToEnd(fd);
  c.close(fd);
  return text;
}

function readSlowly(file: string): string | null {
  const fs = process.getBuiltinModule("node:fs");
  return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : null;
}

const MAX_LINKS = 40;
const MAX_PATH = 4096;

/**
 * Where an absolute path leads, through `..` and every link, whether or not there is anything at its end: what is
 * written through a link to nowhere is made there. Null for a circle of links.
 */
export function followPath(path: string): string | null {
  const ahead = path.split("/").reverse();
  let at = "";
  let links = 0;
  while (ahead.length > 0) {
    const part = ahead.pop() ?? "";
    if (part === "" || part === ".") continue;
    if (part === "..") {
      at = at.slice(0, Math.max(0, at.lastIndexOf("/")));
      continue;
    }
    const target = readLink(`${at}/${part}`);
    if (target === null) at += `/${part}`;
    else {
      if (++links > MAX_LINKS) return null;
      if (target.startsWith("/")) at = "";
      ahead.push(...target.split("/").reverse());
    }
  }
  return at === "" ? "/" : at;
}

/** Null for what is not a link, or not there. */
function readLink(path: string): string | null {
  const c = libc();
  if (!c) return readLinkSlowly(path);
  const target = new Uint8Array(MAX_PATH);
  const length = Number(c.readlink(c.ptr(cString(path)), c.ptr(target), MAX_PATH));
  return length < 0 ? null : new TextDecoder().decode(target.subarray(0, length));
}

function readLinkSlowly(path: string): string | null {
  const fs = process.getBuiltinModule("node:fs");
  const isLink = fs.lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  return isLink ? fs.readlinkSync(path) : null;
}

function readToEnd(fd: number): string | null {
  const c = libc();
  if (!c) return null;
  const decoder = new TextDecoder();
  const chunk = new Uint8Array(CHUNK);
  let text = "";
  for (;;) {
    const length = Number(c.read(fd, c.ptr(chunk), CHUNK));
    if (length < 0) return null;
    if (length === 0) return text + decoder.decode();
    text += decoder.decode(chunk.subarray(0, length), { stream: true });
  }
}

function cString(text: string): Uint8Array {
  return new TextEncoder().encode(`${text}\0`);
}

/** All of the text, written before this returns; a reader that is gone is an error. */
export function writeStdout(text: string): void {
  const c = libc();
  let rest = new TextEncoder().encode(text);
  while (rest.length > 0) {
    const quick = c ? Number(c.write(1, c.ptr(rest), rest.length)) : -1;
    const written = quick > 0 ? quick : process.getBuiltinModule("node:fs").writeSync(1, rest);
    rest = rest.subarray(written);
  }
}

/**
 * This process becomes another program: same pid, same start. Where libc cannot be called the program runs as a child
 * instead, and the answer is its exit code.
 */
export async function become(
  argv: readonly [string, ...string[]],
  env: Readonly<Record<string, string>>,
): Promise<number> {
  const failure = execute(argv, env);
  const child = Bun.spawn([...argv], { env: { ...env }, stdio: ["inherit", "inherit", "inherit"] });
  return await child.exited.catch(() => {
    throw new Error(`${argv[0]} could not be started`, { cause: failure });
  });
}

/** Returns only when it failed. */
function execute(argv: readonly [string, ...string[]], env: Readonly<Record<string, string>>): unknown {
  const { dlopen, ptr } = require("bun:ffi") as typeof import("bun:ffi");
  try {
    const library = process.platform === "darwin" ? "libSystem.dylib" : "libc.so.6";
    const { symbols } = dlopen(library, { execve: { args: ["ptr", "ptr", "ptr"], returns: "i32" } });
    const words = argv.map(cString);
    const variables = Object.entries(env).map(([name, value]) => cString(`${name}=${value}`));
    const list = (strings: Uint8Array[]) =>
      new BigUint64Array([...strings.map((string) => BigInt(ptr(string))), 0n]);
    return symbols.execve(ptr(cString(argv[0])), ptr(list(words)), ptr(list(variables)));
  } catch (error) {
    return error;
  }
}

/** Ends the process with 0 and without farewell: nothing is flushed, closed or run any more. */
export function exitAtOnce(): void {
  loaded?._exit(0);
}
