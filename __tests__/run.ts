/** `npm test`: the linter, the type checker, the bundle and every test. The last line is `N passed, N failed`. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = new URL("..", import.meta.url).pathname;
const bin = `${root}node_modules/.bin`;
const scratch = mkdtempSync(join(tmpdir(), "overseer-tests-"));

function runs(title: string, argv: string[]): boolean {
  console.log(`\n== ${title}`);
  const { exitCode } = Bun.spawnSync(argv, {
    cwd: root,
    stdin: "ignore",
    stdout: "inherit",
    stderr: "inherit",
  });
  return exitCode === 0;
}

function countTests(report: string): { passed: number; failed: number } {
  const xml = readFileSync(report, "utf8");
  const count = (name: string) =>
    Number(new RegExp(`<testsuites[^>]* ${name}="(\\d+)"`).exec(xml)?.[1] ?? Number.NaN);
  const failed = count("failures");
  return { passed: count("tests") - failed - (count("skipped") || 0), failed };
}

const report = join(scratch, "tests.xml");
const checks = [
  runs("biome", [`${bin}/biome`, "check", "--error-on-warnings", "."]),
  runs("types", [`${bin}/tsc`, "--noEmit"]),
  runs("bundle", ["node", "scripts/build.mjs"]),
];
const isGreen = runs("tests", [
  `${bin}/bun`,
  "test",
  "--parallel=2",
  "--timeout=120000",
  "--reporter=junit",
  `--reporter-outfile=${report}`,
  ...process.argv.slice(2),
]);

const tests = countTests(report);
rmSync(scratch, { recursive: true });
const passed = tests.passed + checks.filter((check) => check).length;
const failed = Math.max(tests.failed, isGreen ? 0 : 1) + checks.filter((check) => !check).length;
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 && Number.isInteger(passed) ? 0 : 1);
