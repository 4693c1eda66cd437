/** Sends its mails and records its tool events, alternately, each with databases opened and closed for it alone. */
import { hookCommand } from "../../../src/domain/hook-settings.ts";
import { hookProgram } from "../../../src/effects/package.ts";
import { pathsOf } from "../../../src/effects/paths.ts";
import { hashToken } from "../../../src/effects/tokens.ts";
import { openLedger } from "../../../src/store/sqlite/ledger.ts";
import { openMail } from "../../../src/store/sqlite/mail.ts";
import { until } from "../until.ts";
import { begin, command, ensureSession, PATIENCE_MS, report, Stopwatch } from "./agent.ts";
import {
  bodyOf,
  EVENTS,
  idOf,
  isThroughHook,
  MAILS,
  recipientOf,
  type SenderJob,
  subjectOf,
  tokenOf,
} from "./plan.ts";

const job = await begin<SenderJob>("sender");
const paths = pathsOf(job.root);
const token = tokenOf(job.name);
const watch = new Stopwatch();

await watch.time("register", () => ensureSession(job.root, job.name));
if (job.way === "command") await allRegistered(job.recipients);
for (let n = Math.min(job.nextMail, job.nextEvent); n < Math.max(MAILS, EVENTS); n++) {
  if (n >= job.nextMail && n < MAILS) {
    await watch.time(`send by ${job.way}`, () => (job.way === "command" ? sendByCommand(n) : sendByStore(n)));
    report({ kind: "sent", n });
  }
  if (n >= job.nextEvent && n < EVENTS) {
    await (isThroughHook(n)
      ? watch.time("hook", () => recordByHook(n))
      : watch.time("record", () => recordByStore(n)));
    report({ kind: "recorded", n });
  }
}
report({ kind: "finished", slowest: watch.slowest });

/** The command refuses addresses that nobody has. */
async function allRegistered(names: readonly string[]): Promise<void> {
  const ledger = openLedger(paths.ledger, { mayUpgrade: false });
  const areThere = async () => {
    const known = new Set((await ledger.currentSessions()).map((session) => session.name));
    return names.every((name) => known.has(name));
  };
  await until("all recipients are registered", areThere, { timeoutMs: PATIENCE_MS, everyMs: 50 });
  ledger.close();
}

async function sendByStore(n: number): Promise<void> {
  const mail = openMail(paths.mail, { mayUpgrade: true });
  const id = idOf(job.name, n);
  const to = recipientOf(job.recipients, n);
  const text = { subject: subjectOf(n), body: bodyOf(job.name, n) };
  const rest = { type: "status", priority: "normal", threadId: id, createdAt: Date.now() } as const;
  try {
    await mail.send([{ id, from: job.name, to, ...text, ...rest }]);
  } finally {
    mail.close();
  }
}

async function sendByCommand(n: number): Promise<void> {
  const text = ["--subject", subjectOf(n), "--body", bodyOf(job.name, n)];
  await command(
    job.root,
    job.name,
    ["mail", "send", "--to", recipientOf(job.recipients, n), ...text],
    () => {},
  );
}

/** As the hook does it, but closing what was opened: the log of a database goes with the last who closes it. */
async function recordByStore(n: number): Promise<void> {
  const ledger = openLedger(paths.ledger, { mayUpgrade: false });
  try {
    const recorded = await ledger.recordActivity(
      { tokenHash: hashToken(token) },
      {
        at: Date.now(),
        signal: { kind: "active" },
        event: "session.tool_finished",
        data: { tool: "Bash", durationMs: n },
        tool: { phase: "ended" },
      },
    );
    if (!recorded?.isCurrent) throw new Error(`${job.name} is not known, or not the newest of its name`);
  } finally {
    ledger.close();
  }
}

async function recordByHook(n: number): Promise<void> {
  const payload = {
    session_id: `claude-of-${job.name}`,
    hook_event_name: "PostToolUse",
    tool_name: "Bash",
    tool_input: { command: "true" },
    tool_response: { stdout: "" },
    duration_ms: n,
  };
  const hook = Bun.spawn(["sh", "-c", hookCommand("worker", hookProgram(), "PostToolUse", job.root)], {
    env: { PATH: process.env.PATH, OVERSEER_TOKEN: token, OVERSEER_AGENT_NAME: job.name },
    stdin: new Blob([JSON.stringify(payload)]),
    stdout: "pipe",
    // A hook may outlive a sender that is killed. Whoever reads the sender's stderr to its end has waited for both.
    stderr: "inherit",
  });
  const [said, exitCode] = await Promise.all([hook.stdout.text(), hook.exited]);
  if (exitCode !== 0 || said !== "") throw new Error(`the hook ended with ${exitCode} and said ${said}`);
}
