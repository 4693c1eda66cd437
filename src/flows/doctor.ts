import { formatDuration } from "../domain/duration.ts";
import { messageOf, OverseerError } from "../domain/errors.ts";
import { BD_HINT } from "../effects/beads.ts";
import { exists, filesBelow, move, sizeOf } from "../effects/files.ts";
import type { Paths } from "../effects/paths.ts";
import { run } from "../effects/run.ts";
import {
  checkGuards,
  checkManifest,
  checkPanes,
  checkRescues,
  checkWorkers,
  checkWorktrees,
} from "./doctor-workers.ts";
import { refreshCompiled } from "./init.ts";
import { carryOut, planInstallation } from "./installation.ts";
import { takeBack } from "./mail.ts";
import { journal, type Project } from "./project.ts";
import { ledgerFromLogs, mailFromLogs } from "./restore.ts";
import { compact } from "./retention.ts";

/** `fixed` was broken and is repaired now; `warning` works but deserves a look. */
export type Verdict = "ok" | "warning" | "broken" | "fixed";

export interface Finding {
  check: string;
  verdict: Verdict;
  detail: string;
  hint?: string;
}

/** `reopen` gives a project with nothing open yet: a database that was set aside is not the one that was open. */
export async function examine(reopen: () => Project, isFixing: boolean): Promise<Finding[]> {
  const findings = [
    await checkDatabase(reopen, "ledger", isFixing),
    await checkDatabase(reopen, "mail", isFixing),
    await checkConfig(reopen(), isFixing),
    await checkHooks(reopen(), isFixing),
  ];
  const isSound = findings.every(
    ({ check, verdict }) => verdict !== "broken" || !["ledger", "mail", "config"].includes(check),
  );
  const deeper = isSound
    ? [
        await checkClaims(reopen(), isFixing),
        await checkManifest(reopen()),
        await orWhyNot("workers", () => checkWorkers(reopen(), isFixing)),
        await checkGuards(reopen()),
        await orWhyNot("panes", () => checkPanes(reopen(), isFixing)),
        await orWhyNot("worktrees", () => checkWorktrees(reopen(), isFixing)),
        await orWhyNot("rescues", () => checkRescues(reopen())),
        await checkRetention(reopen(), isFixing),
      ]
    : [];
  return [...(await checkPrograms(reopen())), ...findings, ...deeper, checkDisk(reopen().paths)];
}

/** What cannot be looked at, such as without git, is told beside the rest. */
async function orWhyNot(check: string, look: () => Promise<Finding>): Promise<Finding> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof OverseerError)) throw error;
    return { check, verdict: "warning", detail: error.message };
  }
}

interface Program {
  name: "git" | "tmux" | "claude" | "bd" | "mulch";
  args: string[];
  isNeeded: boolean;
  hint: string;
}

const PROGRAMS: Program[] = [
  { name: "git", args: ["--version"], isNeeded: true, hint: "install git 2.34 or newer" },
  { name: "tmux", args: ["-V"], isNeeded: true, hint: "install tmux: workers run in it" },
  { name: "claude", args: ["--version"], isNeeded: true, hint: "npm install -g @anthropic-ai/claude-code" },
  { name: "bd", args: ["--version"], isNeeded: false, hint: "only for tracker: beads" },
  { name: "mulch", args: ["--version"], isNeeded: false, hint: "only for expertise from mulch" },
];

/** With `tracker: beads`. */
const BD_NEEDED: Pick<Program, "isNeeded" | "hint"> = { isNeeded: true, hint: BD_HINT };

/** As the configuration names and needs them; a broken one has its own finding. */
async function programs(project: Project): Promise<(Program & { bin: string })[]> {
  const plain = PROGRAMS.map((program) => ({ ...program, bin: program.name }));
  try {
    const { config } = await project.config();
    const bins: Readonly<Record<string, string>> = {
      git: config.git.bin,
      tmux: config.tmux.bin,
      claude: config.claude.bin,
    };
    const isBeads = config.tracker === "beads";
    return plain.map((program) => ({
      ...program,
      bin: bins[program.name] ?? program.name,
      ...(isBeads && program.name === "bd" ? BD_NEEDED : {}),
    }));
  } catch (error) {
    if (error instanceof OverseerError) return plain;
    throw error;
  }
}

async function checkPrograms(project: Project): Promise<Finding[]> {
  return await Promise.all(
    (await programs(project)).map(async ({ name, bin, args, isNeeded, hint }): Promise<Finding> => {
      try {
        const result = await run([bin, ...args], {
          env: project.env,
          cwd: project.paths.root,
          timeoutMs: 20_000,
        });
        const version = result.stdout.trim().split("\n")[0] ?? "";
        if (result.exitCode === 0) return { check: name, verdict: "ok", detail: version };
        return { check: name, verdict: "warning", detail: `it ends with ${result.exitCode}`, hint };
      } catch (error) {
        if (!(error instanceof OverseerError)) throw error;
        if (!isNeeded) return { check: name, verdict: "ok", detail: `not installed (${hint})` };
        return { check: name, verdict: "broken", detail: error.message, hint };
      }
    }),
  );
}

async function checkDatabase(
  reopen: () => Project,
  which: "ledger" | "mail",
  isFixing: boolean,
): Promise<Finding> {
  const project = reopen();
  const file = project.paths[which];
  try {
    const problems = await project[which].check();
    if (problems.length === 0)
      return { check: which, verdict: "ok", detail: `${Math.ceil(sizeOf(file) / 1024)} KB` };
    return await repairDatabase(reopen, which, problems.join("; "), isFixing);
  } catch (error) {
    if (!(error instanceof OverseerError)) throw error;
    if (error.code === "database_corrupt")
      return await repairDatabase(reopen, which, error.message, isFixing);
    return {
      check: which,
      verdict: "broken",
      detail: error.message,
      ...(error.hint ? { hint: error.hint } : {}),
    };
  }
}

async function repairDatabase(
  reopen: () => Project,
  which: "ledger" | "mail",
  problem: string,
  isFixing: boolean,
): Promise<Finding> {
  if (!isFixing) return { check: which, verdict: "broken", detail: problem, hint: "overseer doctor --fix" };
  const aside = setAside(reopen());
  const project = reopen();
  const name = aside(which);
  const restored = which === "ledger" ? await restoreLedger(project) : await restoreMail(project);
  const at = project.clock.now();
  const events = [
    { at, type: "store.corrupt" as const, data: { file: name, problem: problem.slice(0, 500) } },
    { at, type: "store.restored" as const, data: { which, restored } },
  ];
  journal(project, events);
  if (which === "ledger") await project.ledger.appendEvents(events);
  return { check: which, verdict: "fixed", detail: `set aside the damaged one as ${name}; ${restored}` };
}

/** Moves a database with its -wal and -shm out of the way, and says under which name it is kept. */
function setAside(project: Project): (which: "ledger" | "mail") => string {
  const time = new Date(project.clock.now()).toISOString().replaceAll(":", "-");
  return (which) => {
    const file = project.paths[which];
    for (const part of ["-wal", "-shm", ""]) {
      if (exists(`${file}${part}`)) move(`${file}${part}`, `${file}${part}.corrupt-${time}`);
    }
    return `${file.slice(project.paths.root.length + 1)}.corrupt-${time}`;
  };
}

async function restoreLedger(project: Project): Promise<string> {
  const { sessions, tasks, events } = await project.ledger.restore(ledgerFromLogs(project.paths));
  return `${tasks} tasks, ${sessions} sessions and ${events} events restored from the logs`;
}

async function restoreMail(project: Project): Promise<string> {
  const restored = await project.mail.restore(mailFromLogs(project.paths));
  return `${restored} messages restored from the logs`;
}

async function checkConfig(project: Project, isFixing: boolean): Promise<Finding> {
  try {
    await project.config();
    if (isFixing) await refreshCompiled(project);
    return { check: "config", verdict: "ok", detail: ".overseer/config.yaml" };
  } catch (error) {
    if (!(error instanceof OverseerError)) throw error;
    return { check: "config", verdict: "broken", detail: error.message, hint: "edit .overseer/config.yaml" };
  }
}

async function checkHooks(project: Project, isFixing: boolean): Promise<Finding> {
  try {
    const installation = planInstallation(project.paths);
    const files = installation.writes.map(({ file }) => file.slice(project.paths.root.length + 1));
    if (files.length === 0) return { check: "hooks", verdict: "ok", detail: "in place" };
    const detail = `${files.join(" and ")} ${files.length === 1 ? "is" : "are"} not as init writes it`;
    if (!isFixing) return { check: "hooks", verdict: "broken", detail, hint: "overseer doctor --fix" };
    carryOut(project.paths, installation);
    return { check: "hooks", verdict: "fixed", detail: `put back ${files.join(" and ")} as init writes it` };
  } catch (error) {
    return {
      check: "hooks",
      verdict: "broken",
      detail: messageOf(error),
      hint: error instanceof OverseerError ? (error.hint ?? "") : "",
    };
  }
}

async function checkClaims(project: Project, isFixing: boolean): Promise<Finding> {
  const recipients = [...(await project.mail.unreadCounts()).keys()];
  if (!isFixing) return { check: "inboxes", verdict: "ok", detail: `${recipients.length} with unread mail` };
  const released: string[] = [];
  for (const recipient of recipients) released.push(...(await takeBack(project, recipient)));
  if (released.length === 0)
    return { check: "inboxes", verdict: "ok", detail: `${recipients.length} with unread mail` };
  return {
    check: "inboxes",
    verdict: "fixed",
    detail: `gave back ${released.length} messages of sessions that died: they are unread again`,
  };
}

async function checkRetention(project: Project, isFixing: boolean): Promise<Finding> {
  const { config } = await project.config();
  const keepMs = config.retention.days * 86_400_000;
  const kept = `events and logs of ${formatDuration(keepMs)}`;
  const removed = isFixing ? await compact(project, project.clock.now() - keepMs) : [];
  if (removed.length === 0) return { check: "retention", verdict: "ok", detail: kept };
  return { check: "retention", verdict: "fixed", detail: `turned into milestones: ${removed.join(", ")}` };
}

function checkDisk(paths: Paths): Finding {
  const files = filesBelow(paths.home).filter((file) => !file.startsWith("worktrees/"));
  const bytes = files.reduce((sum, file) => sum + sizeOf(`${paths.home}/${file}`), 0);
  const corrupt = files.filter((file) => file.includes(".corrupt-"));
  const detail = `${(bytes / 1024 / 1024).toFixed(1)} MB in .overseer`;
  if (corrupt.length === 0) return { check: "disk", verdict: "ok", detail };
  const hint = "remove the *.corrupt-* files once you miss nothing";
  return {
    check: "disk",
    verdict: "warning",
    detail: `${detail}, among it what was damaged and set aside`,
    hint,
  };
}
