import { Database } from "bun:sqlite";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { pathsOf } from "../../../src/effects/paths.ts";
import type { Ledger } from "../../../src/store/contract.ts";
import type { MailStore } from "../../../src/store/mail-contract.ts";
import { openLedger } from "../../../src/store/sqlite/ledger.ts";
import { openMail } from "../../../src/store/sqlite/mail.ts";
import { snapshot, type TempProject, tempProject } from "../cli.ts";
import type { Life } from "./crew.ts";
import { type Job, MAILS, type Printed, recipientOf, subjectOf } from "./plan.ts";

/** A repository in which overseer is set up, with configuration and hooks, but whose databases are gone. */
export async function workplace(): Promise<TempProject> {
  const project = await tempProject();
  removeDatabases(project.path);
  return project;
}

export function removeDatabases(root: string): void {
  const { ledger, mail } = pathsOf(root);
  for (const file of [ledger, mail]) {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(`${file}${suffix}`, { force: true });
  }
}

/** Every mail there shall be. By sender and number, because the command gives random ids. */
export function expectedMail(jobs: readonly Job[]): string[] {
  const keys = jobs.flatMap((job) =>
    job.role === "receiver"
      ? []
      : Array.from({ length: MAILS }, (_, n) => {
          return keyOf({ to: recipientOf(job.recipients, n), from: job.name, subject: subjectOf(n) });
        }),
  );
  return keys.sort();
}

export function keyOf({ to, from, subject }: Pick<Printed, "to" | "from" | "subject">): string {
  return `${to} < ${from} ${subject}`;
}

export function printedBy(life: Life): Printed[] {
  return life.reports.flatMap((report) => (report.kind === "mail" ? report.messages : []));
}

/** The ids of the last check that a process printed: the only ones it may have died with before they were read. */
export function printedLastBy(life: Life): Set<string> {
  const last = life.reports.findLast((report) => report.kind === "mail");
  return new Set(last?.messages.map(({ id }) => id));
}

/** Who printed each mail. */
export function printersByMail(lives: readonly Life[]): Map<string, Life[]> {
  const printers = new Map<string, Life[]>();
  for (const life of lives) {
    for (const { id } of printedBy(life)) printers.set(id, [...(printers.get(id) ?? []), life]);
  }
  return printers;
}

export function recordedBy(life: Life): string[] {
  return life.reports.flatMap((report) =>
    report.kind === "recorded" ? [`${life.job.name} ${report.n}`] : [],
  );
}

/** The event that a killed sender may have recorded without reporting it. */
export function eventInDoubt(life: Life): string[] {
  if (life.job.role !== "sender" || !life.end?.wasKilled) return [];
  const numbers = life.reports.flatMap((report) => (report.kind === "recorded" ? [report.n + 1] : []));
  return [`${life.job.name} ${Math.max(life.job.nextEvent, ...numbers)}`];
}

/** Whatever went wrong, by the name of the process; and what the hooks, which fail in silence, wrote down. */
export function failuresIn(root: string, lives: readonly Life[]): string[] {
  const failed = lives.filter((life) => !life.end?.wasKilled && life.end?.exitCode !== 0);
  const said = lives.filter((life) => life.stderr !== "");
  const log = pathsOf(root).errors;
  return [
    ...failed.map((life) => `${life.job.name} ended with ${life.end?.exitCode}`),
    ...said.map((life) => `${life.job.name} said ${life.stderr}`),
    ...(existsSync(log) ? [`errors.log says ${readFileSync(log, "utf8")}`] : []),
  ];
}

export async function withLedger<T>(root: string, look: (ledger: Ledger) => Promise<T>): Promise<T> {
  const ledger = openLedger(pathsOf(root).ledger, { mayUpgrade: false });
  try {
    return await look(ledger);
  } finally {
    ledger.close();
  }
}

export async function withMail<T>(root: string, look: (mail: MailStore) => Promise<T>): Promise<T> {
  const mail = openMail(pathsOf(root).mail, { mayUpgrade: false });
  try {
    return await look(mail);
  } finally {
    mail.close();
  }
}

export async function damageIn(root: string): Promise<string[]> {
  const ofLedger = await withLedger(root, (ledger) => ledger.check());
  return [...ofLedger, ...(await withMail(root, (mail) => mail.check()))];
}

export async function unreadIn(root: string): Promise<string[]> {
  const unread = await withMail(root, (mail) => mail.listMessages({ isUnread: true, limit: 10_000 }));
  return unread.map(({ id }) => id);
}

/** How often each tool event is in the ledger, as `sender number`. */
export async function eventCounts(root: string): Promise<Map<string, number>> {
  const filter = { type: "session.tool_finished", limit: 1_000_000 };
  const events = await withLedger(root, (ledger) => ledger.listEvents(filter));
  const counts = new Map<string, number>();
  for (const { agent, data } of events) {
    const key = `${agent} ${data.durationMs}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

/** One line with the longest time that each kind of work took in any process that reached its end. */
export function slowestOf(lives: readonly Life[]): string {
  const slowest: Record<string, number> = {};
  for (const report of lives.flatMap((life) => life.reports)) {
    if (report.kind !== "finished") continue;
    for (const [what, ms] of Object.entries(report.slowest)) slowest[what] = Math.max(slowest[what] ?? 0, ms);
  }
  const parts = Object.entries(slowest).map(([what, ms]) => `${what} ${ms} ms`);
  return `slowest: ${parts.join(", ")}`;
}

/** Everything in a repository but git's own files; of the databases, what stands in them. */
export function pictureOf(root: string): Record<string, unknown> {
  const isLeftOut = (path: string) => path.startsWith(".git/") || /\.db(?:-wal|-shm)?$/.test(path);
  const { ledger, mail } = pathsOf(root);
  return { ...snapshot(root, { except: isLeftOut }), ledger: tablesIn(ledger), mail: tablesIn(mail) };
}

function tablesIn(file: string): unknown {
  if (!existsSync(file)) return null;
  const db = new Database(file);
  const tables = db.query<{ name: string; sql: string }, []>(
    "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name",
  );
  const rows = tables.all().map(({ name, sql }) => {
    return sql.startsWith("CREATE TABLE")
      ? { sql, rows: db.query(`SELECT * FROM "${name}"`).all() }
      : { sql };
  });
  const settings = ["user_version", "journal_mode"].map((name) => db.query(`PRAGMA ${name}`).get());
  db.close();
  return { rows, settings };
}
