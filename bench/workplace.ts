import { Database } from "bun:sqlite";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type GuardFacts, renderFacts } from "../src/domain/guard-facts.ts";
import { hookProgram, packageFile } from "../src/effects/package.ts";
import { agentFiles, pathsOf } from "../src/effects/paths.ts";
import { hashToken } from "../src/effects/tokens.ts";
import { openLedger } from "../src/store/sqlite/ledger.ts";
import { openMail } from "../src/store/sqlite/mail.ts";

export const TOKEN = "bench-token";
export const WORKER = "ada";

export interface Size {
  events: number;
  mails: number;
  agents: number;
}

/** A throwaway repository with overseer in it and a history of the size asked for. */
export async function makeWorkplace(size: Size) {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "overseer-bench-")));
  const home = join(root, "..", `${root.slice(root.lastIndexOf("/") + 1)}-home`);
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: home,
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_AUTHOR_NAME: "bench",
    GIT_AUTHOR_EMAIL: "bench@localhost",
    GIT_COMMITTER_NAME: "bench",
    GIT_COMMITTER_EMAIL: "bench@localhost",
  };
  const run = (argv: string[]) => {
    const { exitCode, stderr } = Bun.spawnSync(argv, { cwd: root, env });
    if (exitCode !== 0) throw new Error(`${argv.join(" ")} failed: ${stderr.toString()}`);
  };
  run(["git", "init", "-q", "-b", "main"]);
  run(["git", "commit", "-q", "--allow-empty", "-m", "Begin"]);
  run([packageFile("bin", "overseer"), "init"]);
  await fill(root, size);
  const floorFile = join(root, ".overseer", "floor.db");
  prepareFloor(floorFile);
  return { root, env, floorFile, remove: () => rmSync(root, { recursive: true, force: true }) };
}

function prepareFloor(file: string): void {
  const db = new Database(file);
  db.run("PRAGMA journal_mode = WAL");
  db.run("CREATE TABLE floor (id INTEGER PRIMARY KEY, at INTEGER, text TEXT)");
  db.close();
}

function factsOf(root: string): GuardFacts {
  return {
    name: WORKER,
    capability: "builder",
    parent: "orchestrator",
    root,
    worktree: `${root}/.overseer/worktrees/${WORKER}`,
    branch: `overseer/${WORKER}/t-1`,
    canonicalBranch: "main",
    fileScope: ["src/login", "docs/*.md"],
    isReadOnly: false,
    canSpawn: false,
    ours: [".claude/CLAUDE.md", ".claude/.gitignore"],
  };
}

async function fill(root: string, size: Size): Promise<void> {
  const paths = pathsOf(root);
  const ledger = openLedger(paths.ledger, { mayUpgrade: true });
  const mail = openMail(paths.mail, { mayUpgrade: true });
  const now = Date.now();
  const guard = agentFiles(paths, WORKER).guard;
  mkdirSync(dirname(guard), { recursive: true });
  writeFileSync(guard, renderFacts(factsOf(root)));
  for (let i = 0; i < size.agents; i++) {
    const name = i === 0 ? WORKER : `agent-${i}`;
    await ledger.registerSession({
      id: `ses-${i}`,
      name,
      capability: "builder",
      tokenHash: hashToken(i === 0 ? TOKEN : `${TOKEN}-${i}`),
      startedAt: now,
      logFolder: `${name}/bench`,
    });
  }
  const batch = 5_000;
  for (let from = 0; from < size.events; from += batch) {
    await ledger.appendEvents(
      Array.from({ length: Math.min(batch, size.events - from) }, (_, i) => ({
        at: now - size.events + from + i,
        type: i % 2 === 0 ? ("session.tool_started" as const) : ("session.tool_finished" as const),
        agent: `agent-${(from + i) % Math.max(1, size.agents)}`,
        sessionId: `ses-${(from + i) % Math.max(1, size.agents)}`,
        data: { tool: "Bash", input: { command: `npm test -- --shard ${i}` } },
      })),
    );
  }
  for (let from = 0; from < size.mails; from += batch) {
    const ids = Array.from({ length: Math.min(batch, size.mails - from) }, (_, i) => `msg-bench-${from + i}`);
    await mail.send(
      ids.map((id, i) => ({
        id,
        from: "orchestrator",
        to: `agent-${(from + i) % Math.max(1, size.agents)}`,
        subject: `Message ${from + i}`,
        body: "The text of a message, of ordinary length, about ordinary things.",
        type: "status" as const,
        priority: "normal" as const,
        threadId: id,
        createdAt: now,
      })),
    );
    await mail.markRead(ids, now);
  }
  ledger.close();
  mail.close();
}

/** How any Bun script is started here: exactly as a hook is. */
export function bunCommand(script: string, ...args: string[]): string {
  const { bun, config } = hookProgram();
  return `exec '${bun}' --no-env-file '--config=${config}' '${script}' ${args.map((arg) => `'${arg}'`).join(" ")}`;
}
