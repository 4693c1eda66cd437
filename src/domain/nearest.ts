/** The candidate that `word` was probably meant to be, or null when none is near enough to be worth suggesting. */
export function nearest(word: string, candidates: readonly string[]): string | null {
  return nearestFew(word, candidates, 1)[0] ?? null;
}

/** The `n` nearest candidates, nearest first; case does not count, except that an exact match comes first. */
export function nearestFew(word: string, candidates: readonly string[], n: number): string[] {
  const wanted = word.toLowerCase();
  return [...new Set(candidates)]
    .map((name) => ({ name, distance: nearDistance(wanted, name.toLowerCase()), isExact: name === word }))
    .filter(({ distance }) => distance !== null)
    .sort((a, b) => Number(b.isExact) - Number(a.isExact) || (a.distance ?? 0) - (b.distance ?? 0))
    .slice(0, n)
    .map(({ name }) => name);
}

/** One slip per three letters, three at most: "ad" may be "ada", but "x" is not "y". */
function nearDistance(a: string, b: string): number | null {
  const limit = Math.min(3, Math.floor(Math.max(a.length, b.length) / 3));
  // Also spares the table below for a word that is thousands of characters long.
  if (Math.abs(a.length - b.length) > limit) return null;
  const distance = editDistance(a, b);
  return distance <= limit ? distance : null;
}

/** Damerau-Levenshtein in its usual restricted form: insert, delete, replace, or swap two neighbours, each counted once. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = at(last, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? at(beforeLast, j - 2) + 1 : Infinity;
      row.push(Math.min(at(last, j) + 1, at(row, j - 1) + 1, replace, swap));
    }
    beforeLast = last;
    last = row;
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Infinity;
}
