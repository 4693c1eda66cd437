import { messageOf } from "../domain/errors.ts";
import { isLive } from "../domain/session.ts";
import {
  type Answer,
  addUsage,
  answerKey,
  laterOf,
  NO_USAGE,
  readAnswer,
  speakerOf,
  type Usage,
  usageOf,
  withoutAnswer,
} from "../domain/usage.ts";
import { logError } from "../effects/logs.ts";
import { MISSING, readTranscript, subagentTranscripts } from "../effects/transcripts.ts";
import type { Session } from "../store/contract.ts";
import type { CountedAnswer, NamedTranscript, TranscriptMark } from "../store/usage-contract.ts";
import type { Project } from "./project.ts";

/** A transcript, or a part of one, that is missing in the count. */
export interface Unread {
  session: Session;
  path: string;
  why: string;
}

export interface UsageReport {
  bySession: Map<string, Usage>;
  unread: Unread[];
}

/** What one process has read of a transcript, so that who looks every second reads only what is new. */
export type Memory = Map<string, Remembered>;

interface Remembered {
  /** How far it was recorded when this began. */
  from: number;
  answers: Answer[];
  mark: TranscriptMark;
}

/**
 * Counts what a session has used so far, for good: Claude Code deletes its transcripts after a month. Done twice, it is
 * counted once. What a worker costs is no reason for anything else to fail.
 */
export async function recordUsage(project: Project, session: Session): Promise<void> {
  try {
    const { answers, marks } = await count(project, [session], Number.POSITIVE_INFINITY, new Map());
    if (marks.length > 0) await project.ledger.recordUsage(answers, marks);
  } catch (error) {
    logError(project.paths, project.clock.now(), `counting what ${session.name} has used`, error);
  }
}

/** Those whose end no flow has seen, such as the person's own sessions. */
export async function recordEnded(project: Project): Promise<void> {
  for (const session of await project.ledger.uncountedSessions()) await recordUsage(project, session);
}

/** What is recorded, and what the transcripts say beyond that. Reads only. */
export async function readUsage(
  project: Project,
  sessions: readonly Session[],
  { most = Number.POSITIVE_INFINITY, memory = new Map() }: { most?: number; memory?: Memory } = {},
): Promise<UsageReport> {
  const { ledger } = project;
  const fresh = await count(project, sessions, most, memory);
  // After that: whoever records meanwhile what was just read must not make it missing in both.
  const bySession = await ledger.recordedUsage(sessions.map(({ id }) => id));
  const counted = await ledger.countedAnswers(fresh.answers);
  const known = new Map(counted.map((answer) => [answerKey(answer), answer]));
  for (const answer of fresh.answers) {
    const before = known.get(answerKey(answer));
    const sessionId = before?.sessionId ?? answer.sessionId;
    const sum = bySession.get(sessionId);
    if (sum === undefined || laterOf<CountedAnswer>(before, answer) === before) continue;
    bySession.set(sessionId, addUsage(before ? withoutAnswer(sum, before) : sum, usageOf(answer)));
  }
  const marks = await ledger.transcriptMarks({ sessionIds: sessions.map(({ id }) => id) });
  const read = new Set(fresh.marks.map(({ path }) => path));
  const damaged = damages(sessions, [...fresh.marks, ...marks.filter(({ path }) => !read.has(path))]);
  return { bySession, unread: [...(await withoutSilent(project, fresh.unread)), ...damaged] };
}

interface Counted {
  answers: CountedAnswer[];
  marks: TranscriptMark[];
  unread: Unread[];
}

/** Reads what the transcripts of these sessions have beyond what is recorded, for everybody who speaks in them. */
async function count(
  project: Project,
  sessions: readonly Session[],
  most: number,
  memory: Memory,
): Promise<Counted> {
  const found: Counted = { answers: [], marks: [], unread: [] };
  const readAt = project.clock.now();
  const byKey = new Map<string, CountedAnswer>();
  let left = most;
  for (const file of await filesOf(project, sessions, found)) {
    const { path, session, owners } = file;
    const past = recall(memory, file);
    const from = past.mark.readTo;
    const isWhole = left > 0 ? readOn(past, file, left, readAt) : TOO_LONG;
    if (isWhole !== true) found.unread.push({ session, path, why: isWhole });
    left -= past.mark.readTo - from;
    if (past.mark.readAt === readAt) found.marks.push(past.mark);
    memory.set(path, past);
    for (const answer of past.answers) {
      const key = answerKey(answer);
      const before = byKey.get(key);
      const sessionId = before?.sessionId ?? speakerOf(owners, answer.at)?.sessionId;
      if (sessionId !== undefined) byKey.set(key, laterOf(before, { ...answer, sessionId }));
    }
  }
  found.answers.push(...byKey.values());
  return found;
}

/** True, or why there is more in it than is known now. */
function readOn(past: Remembered, { path, session }: File, most: number, readAt: number): true | string {
  const read = readTranscript(path, past.mark.readTo, most);
  if (typeof read === "string") return read;
  let { damaged } = past.mark;
  for (const answer of read.lines.map(readAnswer)) {
    if (answer === "damaged") damaged += 1;
    else if (answer !== null) past.answers.push(answer);
  }
  past.mark = {
    ...{ path, sessionId: session.id, readTo: read.offset, readAt },
    ...{ damaged: damaged + read.damaged, isCutOff: read.isCutOff },
  };
  return read.isWhole || TOO_LONG;
}

const TOO_LONG = "it is too long to be read at every look";

function recall(memory: Memory, { path, session, mark }: File): Remembered {
  const past = memory.get(path);
  const from = mark?.readTo ?? 0;
  if (past && past.from === from) return past;
  const begun = { path, sessionId: session.id, readTo: from, readAt: 0, damaged: 0, isCutOff: false };
  return { from, answers: [], mark: mark ?? begun };
}

interface File {
  path: string;
  session: Session;
  /** Everybody who has begun or gone on with it, in the order of their starts. */
  owners: readonly NamedTranscript[];
  mark: TranscriptMark | undefined;
}

async function filesOf(project: Project, sessions: readonly Session[], found: Counted): Promise<File[]> {
  const { ledger } = project;
  const byId = new Map(sessions.map((session) => [session.id, session]));
  const names = [...new Set(sessions.map(({ name }) => name))];
  const named = Map.groupBy(await ledger.transcriptsOf(names), ({ path }) => path);
  const marks = new Map(
    (await ledger.transcriptMarks({ paths: [...named.keys()] })).map((mark) => [mark.path, mark]),
  );
  const files: Omit<File, "mark">[] = [];
  for (const [path, speakers] of named) {
    const owners = speakers.toSorted((a, b) => a.startedAt - b.startedAt);
    const asked = owners.flatMap(({ sessionId }) => byId.get(sessionId) ?? []);
    const session = asked.findLast((one) => isOpen(one, marks.get(path)));
    if (!session) continue;
    files.push({ path, session, owners });
    for (const beside of besides(path, session, found)) files.push({ path: beside, session, owners });
  }
  const all = await ledger.transcriptMarks({ paths: files.map(({ path }) => path) });
  const byPath = new Map(all.map((mark) => [mark.path, mark]));
  return files.map((file) => ({ ...file, mark: byPath.get(file.path) }));
}

/** Whether there may be more in it than is recorded. */
function isOpen({ state, lastActivityAt }: Session, mark: TranscriptMark | undefined): boolean {
  return isLive(state) || mark === undefined || mark.readAt < lastActivityAt;
}

function besides(path: string, session: Session, found: Counted): string[] {
  try {
    return subagentTranscripts(path);
  } catch (error) {
    found.unread.push({ session, path, why: messageOf(error) });
    return [];
  }
}

/** Claude Code writes nothing down before the first prompt. */
async function withoutSilent({ ledger }: Project, unread: readonly Unread[]): Promise<Unread[]> {
  const told: Unread[] = [];
  for (const one of unread) {
    const { name, id, startedAt } = one.session;
    const hasPrompt = async () => {
      const filter = { agent: name, type: "session.prompted", since: startedAt, limit: 1_000 };
      return (await ledger.listEvents(filter)).some(({ sessionId }) => sessionId === id);
    };
    if (one.why !== MISSING || (await hasPrompt())) told.push(one);
  }
  return told;
}

function damages(sessions: readonly Session[], marks: readonly TranscriptMark[]): Unread[] {
  const byId = new Map(sessions.map((session) => [session.id, session]));
  return marks.flatMap(({ path, sessionId, damaged, isCutOff }) => {
    const session = byId.get(sessionId);
    if (!session) return [];
    const whys = [
      damaged === 0
        ? ""
        : damaged === 1
          ? "one of its lines is damaged"
          : `${damaged} of its lines are damaged`,
      // Somebody who lives may be writing it at this moment.
      isCutOff && !isLive(session.state) ? "its last line is cut off" : "",
    ];
    return whys.filter((why) => why !== "").map((why) => ({ session, path, why }));
  });
}

/** Added up over several sessions. */
export function totalOf({ bySession }: UsageReport, sessions: readonly Pick<Session, "id">[]): Usage {
  return sessions.map(({ id }) => bySession.get(id) ?? NO_USAGE).reduce(addUsage, NO_USAGE);
}
