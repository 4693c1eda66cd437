import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { type Answer, isBesideDatabase, snapshot, type TempProject, tempProject } from "./support/cli.ts";
import { tempFolder } from "./support/temp.ts";

const SETTINGS = ".claude/settings.local.json";

interface Finding {
  check: string;
  verdict: string;
  detail: string;
  hint?: string;
}

/** A PATH on which there is nothing but what a test puts there. */
const programs = tempFolder();
programs.write("claude", "#!/bin/sh\necho '2.1.0 (Claude Code)'\n", 0o755);
programs.write("tmux", "#!/bin/sh\necho 'tmux 3.4'\n", 0o755);
symlinkSync(Bun.which("git") ?? "", `${programs.path}/git`);
afterAll(() => programs.remove());

let project: TempProject;
beforeEach(async () => {
  project = await tempProject();
});
afterEach(() => project.remove());

function doctor(args: readonly string[] = [], PATH = programs.path): Promise<Answer> {
  return project.overseer(["doctor", ...args, "--json"], { env: { PATH } });
}

function findings({ stdout }: Answer): Record<string, Finding> {
  const { data } = JSON.parse(stdout);
  return Object.fromEntries(data.findings.map((finding: Finding) => [finding.check, finding]));
}

const CHECKS = [
  ...["git", "tmux", "claude", "bd", "mulch"],
  ...["ledger", "mail", "config", "hooks", "inboxes"],
  ...["roles", "workers", "guards", "panes", "worktrees", "rescues", "retention", "disk"],
];

const DAY_MS = 86_400_000;

describe("doctor", () => {
  test("looks at everything and finds a new project healthy", async () => {
    const answer = await doctor();
    expect(answer.data<{ healthy: boolean }>().healthy).toBe(true);
    const found = findings(answer);
    expect(Object.keys(found)).toEqual(CHECKS);
    expect(new Set(Object.values(found).map(({ verdict }) => verdict))).toEqual(new Set(["ok"]));
    expect(found.git?.detail).toMatch(/^git version \d/);
    expect(found.claude?.detail).toBe("2.1.0 (Claude Code)");
    expect(found.bd?.detail).toContain("not installed");
  });

  for (const missing of ["claude", "tmux", "git"]) {
    test(`without ${missing} it is broken, with a hint, and ends with 1`, async () => {
      using path = tempFolder();
      for (const name of ["claude", "tmux", "git"].filter((other) => other !== missing)) {
        symlinkSync(`${programs.path}/${name}`, `${path.path}/${name}`);
      }
      const answer = await doctor([], path.path);
      expect(answer.exitCode).toBe(1);
      expect(findings(answer)[missing]).toMatchObject({
        verdict: "broken",
        detail: `${missing} is not installed`,
      });
      expect(findings(answer)[missing]?.hint).toContain("install");
      // Whatever else needs it says so, and the rest is looked at all the same.
      const others = Object.entries(findings(answer)).filter(([check]) => check !== missing);
      expect(others.map(([check]) => check)).toEqual(CHECKS.filter((check) => check !== missing));
      for (const [, { verdict, detail }] of others) {
        if (verdict !== "ok")
          expect({ verdict, detail }).toEqual({ verdict: "warning", detail: `${missing} is not installed` });
      }
      const text = await project.overseer(["doctor"], { env: { PATH: path.path } });
      expect(text).toMatchObject({ exitCode: 1, stderr: "" });
      expect(text.stdout).toMatch(new RegExp(`^broken +${missing} .*\n +next: .*install`, "m"));
    });
  }

  test("a program that fails deserves a look", async () => {
    using path = tempFolder();
    symlinkSync(`${programs.path}/git`, `${path.path}/git`);
    for (const name of ["claude", "tmux"]) path.write(name, "#!/bin/sh\nexit 3\n", 0o755);
    const answer = await doctor([], path.path);
    expect(answer.exitCode).toBe(0);
    expect(findings(answer).claude).toMatchObject({ verdict: "warning", detail: "it ends with 3" });
  });

  test("a broken configuration is broken, with file, line and key, and --fix does not touch it", async () => {
    const file = project.write(".overseer/config.yaml", "agents:\n  maxConcurent: 3\n");
    for (const args of [[], ["--fix"]]) {
      const answer = await doctor(args);
      expect(answer.exitCode).toBe(1);
      const { verdict, detail } = findings(answer).config ?? {};
      expect(verdict).toBe("broken");
      expect(detail).toMatch(/config\.yaml:2: agents\.maxConcurent/);
    }
    expect(readFileSync(file, "utf8")).toBe("agents:\n  maxConcurent: 3\n");
  });

  test("hooks that are gone, moved or half there are broken, and --fix puts them back beside the user's own", async () => {
    const path = `${project.path}/${SETTINGS}`;
    const good = readFileSync(path, "utf8");
    const without = JSON.parse(good);
    delete without.hooks.Stop;
    const broken: (string | null)[] = [
      '{"model":"opus"}',
      JSON.stringify(without),
      good.replace(/exec '[^']*'/, "exec '/no/longer/there/bun'"),
      null,
    ];
    for (const content of broken) {
      if (content === null) rmSync(path);
      else writeFileSync(path, content);
      const sick = await doctor();
      expect(sick.exitCode).toBe(1);
      expect(findings(sick).hooks).toMatchObject({ verdict: "broken", hint: "overseer doctor --fix" });
      expect(existsSync(path) ? readFileSync(path, "utf8") : null).toBe(content);
      const fixed = await doctor(["--fix"]);
      expect(fixed.exitCode).toBe(0);
      expect(findings(fixed).hooks).toMatchObject({
        verdict: "fixed",
        detail: expect.stringMatching(/^put back \.claude/),
      });
      expect(JSON.parse(readFileSync(path, "utf8")).hooks).toEqual(JSON.parse(good).hooks);
      expect((await doctor()).exitCode).toBe(0);
    }
    writeFileSync(path, '{"model":"opus"}');
    await doctor(["--fix"]);
    expect(JSON.parse(readFileSync(path, "utf8")).model).toBe("opus");
  });

  test("settings that cannot be read are broken, and --fix leaves them to the user", async () => {
    writeFileSync(`${project.path}/${SETTINGS}`, "{ broken");
    for (const args of [[], ["--fix"]]) {
      const answer = await doctor(args);
      expect(answer.exitCode).toBe(1);
      expect(findings(answer).hooks).toMatchObject({ verdict: "broken" });
      expect(findings(answer).hooks?.hint).toContain("repair the file");
    }
    expect(readFileSync(`${project.path}/${SETTINGS}`, "utf8")).toBe("{ broken");
  });

  test("mail that a dead process holds is given back by --fix", async () => {
    await project.overseer(["mail", "send", "--to", "human", "--subject", "held"]);
    await project.open(async ({ mail }) => {
      const claimant = { process: "4194000:1", claudeSessionId: null };
      await mail.claim({ recipient: "human", claimant, at: 1, pressingOnly: false, maxLength: 10_000 });
    });
    expect(findings(await doctor()).inboxes?.verdict).toBe("ok");
    expect(findings(await doctor(["--fix"])).inboxes?.verdict).toBe("fixed");
    const released = await project.overseer(["events", "--type", "mail.released", "--json"]);
    expect(released.data<{ events: unknown[] }>().events).toHaveLength(1);
  });

  test("worktrees without a worker and workers without a worktree deserve a look", async () => {
    mkdirSync(`${project.path}/.overseer/worktrees/nobody`);
    await project.register({ name: "ada", worktree: `${project.path}/.overseer/worktrees/ada` });
    for (const args of [[], ["--fix"]]) {
      const { verdict, detail, hint } = findings(await doctor(args)).worktrees ?? {};
      expect(verdict).toBe("warning");
      expect(detail).toContain("nobody's: nobody");
      expect(detail).toContain("missing, of ada");
      expect(hint).toMatch(/^overseer worktree clean nobody .*; overseer stop ada && overseer resume ada$/);
      if (args.length > 0) expect(detail).toContain("nobody (kept: git knows of no commit in it)");
    }
    expect(existsSync(`${project.path}/.overseer/worktrees/nobody`)).toBe(true);
  });

  test("without --fix it changes nothing, however ill the project is", async () => {
    project.write(".claude/settings.local.json", "{}");
    project.write(".overseer/logs/ada/2020-01-01T00-00-00.000Z/session.log", "old\n");
    await project.open(({ ledger }) =>
      ledger.appendEvents([{ at: 1, type: "session.started", agent: "ada" }]),
    );
    writeFileSync(`${project.path}/.overseer/mail.db`, "garbage".repeat(1_000));
    await project.overseer(["events"]);
    const before = snapshot(project.path, { hasTimes: true, except: isBesideDatabase });
    expect((await doctor()).exitCode).toBe(1);
    expect(snapshot(project.path, { hasTimes: true, except: isBesideDatabase })).toEqual(before);
  });
});

describe("retention", () => {
  async function withHistory(): Promise<void> {
    const now = Date.now();
    await project.register({ name: "ada" });
    await project.overseer(["task", "create", "Open"]);
    await project.open(async ({ ledger }) => {
      await ledger.appendEvents([
        { at: now - 100 * DAY_MS, type: "session.started", agent: "ada" },
        { at: now - 99 * DAY_MS, type: "session.ended", agent: "ada" },
        { at: now - 95 * DAY_MS, type: "task.closed", taskId: "t-old" },
        { at: now - 80 * DAY_MS, type: "session.started", agent: "ada" },
      ]);
    });
    for (const [name, age] of [
      ["2026-01-01T00-00-00.000Z", 100],
      ["2026-03-01T00-00-00.000Z", 10],
    ] as const) {
      const file = project.write(`.overseer/logs/ada/${name}/session.log`, "what it did\n");
      utimesSync(file, (now - age * DAY_MS) / 1_000, (now - age * DAY_MS) / 1_000);
    }
  }

  const types = async () =>
    (await project.overseer(["events", "--json"]))
      .data<{ events: { type: string; agent: string; data: Record<string, unknown> }[] }>()
      .events.map(({ type }) => type);

  test("turns old events and logs into milestones, once, and keeps the newer ones", async () => {
    await withHistory();
    const answer = await doctor(["--fix"]);
    expect(answer.exitCode).toBe(0);
    expect(findings(answer).retention).toMatchObject({ verdict: "fixed" });
    const left = await types();
    expect(left.filter((type) => type === "session.milestone")).toHaveLength(2);
    expect(left.filter((type) => type === "session.started")).toHaveLength(1);
    expect(left).not.toContain("session.ended");
    expect(left).toContain("task.created");
    const [milestone] = (
      await project.overseer(["events", "--type", "session.milestone", "--agent", "ada", "--json"])
    ).data<{
      events: { data: { counts: Record<string, number> } }[];
    }>().events;
    expect(milestone?.data.counts).toEqual({ "session.started": 1, "session.ended": 1 });

    const folders = readdirSync(`${project.path}/.overseer/logs/ada`);
    expect(folders).not.toContain("2026-01-01T00-00-00.000Z");
    expect(folders).toContain("2026-03-01T00-00-00.000Z");
    const kept = readFileSync(`${project.path}/.overseer/logs/ada/milestones.ndjson`, "utf8").trim();
    expect(JSON.parse(kept)).toMatchObject({ session: "2026-01-01T00-00-00.000Z", bytes: 12 });

    expect(findings(await doctor(["--fix"])).retention?.verdict).toBe("ok");
    expect(await types()).toEqual(left);
  });

  test("follows retention.days", async () => {
    await withHistory();
    const config = `${project.path}/.overseer/config.yaml`;
    writeFileSync(config, `${readFileSync(config, "utf8")}\nretention:\n  days: 365\n`);
    const before = await types();
    expect(findings(await doctor(["--fix"])).retention?.verdict).toBe("ok");
    expect(await types()).toEqual(before);
  });
});
