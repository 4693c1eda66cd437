/** One word of a POSIX shell, whatever is in it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The same for a person to read and type: in quotes only where it needs them. */
export function typed(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : quoted(text);
}
