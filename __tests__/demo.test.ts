import { expect, test } from "bun:test";
import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { cleanEnvironment } from "./support/cli.ts";

test("the demo shows a lead and three builders at work, a question, a trespass, and keeps its folder", async () => {
  const script = join(import.meta.dir, "../demo/demo.ts");
  const child = Bun.spawn([process.execPath, script], {
    env: cleanEnvironment(),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [shown, complaints, exitCode] = await Promise.all([
    child.stdout.text(),
    child.stderr.text(),
    child.exited,
  ]);
  const root = /cd (\S+)/.exec(shown)?.[1] ?? "";
  try {
    expect({ exitCode, complaints }).toEqual({ exitCode: 0, complaints: "" });
    for (const name of ["prices", "basket", "receipt"]) {
      expect(shown).toMatch(new RegExp(`  ${name} +builder +working`));
      expect(shown).toMatch(new RegExp(`  ${name} +builder +completed`));
      expect(existsSync(`${root}/.overseer/worktrees/${name}/${name}.js`)).toBe(true);
    }
    expect(shown).toMatch(/lena +lead +completed/);
    expect(shown).toMatch(/session\.woken orchestrator by=waiter/);
    expect(shown).toMatch(/session\.woken prices \S+ by=waiter/);
    expect(shown).toMatch(/guard\.denied basket .*receipt\.js is not among your files/);
    expect(shown).toContain("Merge  3 pending");
    expect(shown).toContain("lena has finished");
  } finally {
    if (root !== "") rmSync(dirname(root), { recursive: true, force: true });
  }
}, 120_000);
