import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { cleanEnvironment } from "../cli.ts";
import { until } from "../until.ts";
import type { Job, Report } from "./plan.ts";

const RUN_DEADLINE_MS = 100_000;
const LOOK_EVERY_MS = 50;

/** One process of a role, from its start to its end. */
export interface Life {
  readonly job: Job;
  readonly reports: Report[];
  mark: string;
  stderr: string;
  /** null while it lives. */
  end: { wasKilled: boolean; exitCode: number } | null;
  kill(): void;
}

/** Whoever is killed is started again with what is left of its job. */
export interface Kills {
  /** Gives numbers in [0, 1). */
  random: () => number;
  /** A random process is killed this often. */
  everyMs: number;
  /** And this share of those that have just printed mail, which they would mark read next. */
  afterPrinting: number;
  /** So that the run ends. */
  perRole: number;
}

export interface RunOptions {
  jobs: readonly Job[];
  go: string;
  done: string;
  kills?: Kills;
}

/** Runs every job to its end and returns all lives, in the order in which they began. */
export async function runCrew({ jobs, go, done, kills }: RunOptions): Promise<Life[]> {
  const crew = new Crew(kills);
  try {
    const roles = jobs.map((job) => ({ job, ended: crew.live(job) }));
    await until("all processes are at the start", () => crew.lives.every((life) => life.mark !== ""), {
      timeoutMs: RUN_DEADLINE_MS,
    });
    writeFileSync(go, "");
    const ofSenders = roles.filter(({ job }) => job.role === "sender");
    const sent = Promise.all(ofSenders.map(({ ended }) => ended)).then(() => writeFileSync(done, ""));
    let hasEnded = false;
    const ended = Promise.all([sent, ...roles.map((role) => role.ended)]).then(() => {
      hasEnded = true;
    });
    // Each look but the last kills somebody.
    const isOver = () => hasEnded || crew.killOne();
    const looking = { timeoutMs: RUN_DEADLINE_MS, everyMs: kills?.everyMs ?? LOOK_EVERY_MS };
    await until("everybody has ended", isOver, looking);
    await ended;
    await crew.silence();
    return crew.lives;
  } finally {
    crew.dismiss();
  }
}

class Crew {
  readonly lives: Life[] = [];
  readonly #tails: Promise<void>[] = [];
  readonly #kills: Kills | undefined;
  #isDismissed = false;

  constructor(kills: Kills | undefined) {
    this.#kills = kills;
  }

  /** A role: lives until it ends by itself; whenever it is killed, another process goes on where it stopped. */
  async live(job: Job): Promise<void> {
    for (let rest = job; ; ) {
      const { life, ended } = this.#begin(rest);
      if (!(await ended).wasKilled || this.#isDismissed) return;
      rest = restOf(rest, life.reports);
    }
  }

  killOne(): false {
    if (!this.#kills) return false;
    const victims = this.lives.filter((life) => this.#mayKill(life));
    victims[Math.floor(this.#kills.random() * victims.length)]?.kill();
    return false;
  }

  /** Ends whoever is left, and nobody takes their place. */
  dismiss(): void {
    this.#isDismissed = true;
    for (const life of this.lives) if (life.end === null) life.kill();
  }

  /** Waits for what the killed ones left running: a hook holds its sender's stderr open. */
  async silence(): Promise<void> {
    await Promise.all(this.#tails);
  }

  #mayKill(life: Life): boolean {
    const deaths = this.lives.filter((other) => other.job.name === life.job.name && other.end?.wasKilled);
    return life.end === null && deaths.length < (this.#kills?.perRole ?? 0);
  }

  #noteReport(life: Life, report: Report): void {
    life.reports.push(report);
    if (report.kind === "ready") life.mark = report.mark;
    if (report.kind !== "mail" || !this.#kills || !this.#mayKill(life)) return;
    if (this.#kills.random() < this.#kills.afterPrinting) life.kill();
  }

  #begin(job: Job): { life: Life; ended: Promise<NonNullable<Life["end"]>> } {
    const script = join(import.meta.dir, `${job.role}.ts`);
    const child = Bun.spawn([process.execPath, "--no-env-file", script, JSON.stringify(job)], {
      env: cleanEnvironment(),
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const life: Life = {
      job,
      reports: [],
      mark: "",
      stderr: "",
      end: null,
      kill: () => child.kill("SIGKILL"),
    };
    const ended = readReports(child.stdout, (report) => this.#noteReport(life, report)).then(async () => {
      const exitCode = await child.exited;
      life.end = { wasKilled: child.signalCode === "SIGKILL", exitCode };
      return life.end;
    });
    this.#tails.push(
      child.stderr.text().then((text) => {
        life.stderr = text;
      }),
    );
    this.lives.push(life);
    return { life, ended };
  }
}

/** Whole lines only: half a line is what a killed process did not get to print. */
async function readReports(
  stdout: ReadableStream<Uint8Array>,
  note: (report: Report) => void,
): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stdout) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) note(JSON.parse(line));
  }
}

/**
 * A sender goes on where it stopped, and sends the last mail it reported once more: the same id is the same mail. An
 * event has no id, so that one which was recorded but not reported may be there again.
 */
function restOf(job: Job, reports: readonly Report[]): Job {
  if (job.role === "receiver") return job;
  const last = (kind: "sent" | "recorded") =>
    Math.max(-1, ...reports.map((report) => (report.kind === kind ? report.n : -1)));
  const nextMail = Math.max(job.nextMail, last("sent"));
  return { ...job, nextMail, nextEvent: Math.max(job.nextEvent, last("recorded") + 1) };
}
