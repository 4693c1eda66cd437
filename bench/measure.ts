/** Medians of whole commands against a floor that runs in between them, so that a noisy machine is noisy for both. */
export interface Case {
  name: string;
  /** As Claude Code starts a hook: through `sh -c`. */
  command: string;
  env: Readonly<Record<string, string>>;
  input?: string;
  cwd?: string;
  /** What the ratio to the floor may be at the most, where the project has promised one. */
  bar?: number;
}

export interface Measured {
  name: string;
  medianMs: number;
  ratio: number;
  bar: number | undefined;
}

/** The first case is the floor. */
export function measure(cases: readonly Case[], rounds: number): Measured[] {
  const samples = new Map<string, number[]>(cases.map(({ name }) => [name, []]));
  for (let round = -2; round < rounds; round++) {
    for (const one of shuffled(cases)) {
      const took = runOnce(one);
      if (round >= 0) samples.get(one.name)?.push(took); // the first rounds only warm the caches
    }
  }
  const floor = median(samples.get(cases[0]?.name ?? "") ?? []);
  return cases.map(({ name, bar }) => {
    const medianMs = median(samples.get(name) ?? []);
    return { name, medianMs, ratio: medianMs / floor, bar };
  });
}

/** In a fixed order, what happens every few writes, such as a checkpoint, would always hit the same case. */
function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

function runOnce({ name, command, env, input, cwd }: Case): number {
  const began = Bun.nanoseconds();
  const child = Bun.spawnSync(["/bin/sh", "-c", command], {
    env: { ...env },
    stdin: new TextEncoder().encode(input ?? ""),
    ...(cwd === undefined ? {} : { cwd }),
  });
  const took = (Bun.nanoseconds() - began) / 1e6;
  if (child.exitCode !== 0) throw new Error(`${name} failed: ${child.stderr.toString()}`);
  return took;
}

export function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

export function printTable(title: string, rows: readonly Measured[]): void {
  const widest = Math.max(...rows.map(({ name }) => name.length));
  console.log(`\n${title}`);
  for (const { name, medianMs, ratio, bar } of rows) {
    const promise = bar === undefined ? "" : `  (bar ${bar.toFixed(1)}${ratio > bar ? ", MISSED" : ""})`;
    console.log(
      `  ${name.padEnd(widest)}  ${medianMs.toFixed(2).padStart(8)} ms  x${ratio.toFixed(2)}${promise}`,
    );
  }
}
