import type { Answer, Usage } from "../domain/usage.ts";
import type { Session } from "./contract.ts";

/** An answer that is counted, and for which session. */
export interface CountedAnswer extends Answer {
  sessionId: string;
}

/** How far a transcript has been counted. */
export interface TranscriptMark {
  path: string;
  /** The session for which it was read last. */
  sessionId: string;
  readTo: number;
  readAt: number;
  /** Lines before that which could not be read. */
  damaged: number;
  isCutOff: boolean;
}

/** A transcript that a session has begun or gone on with. */
export interface NamedTranscript {
  path: string;
  sessionId: string;
  startedAt: number;
}

/** What the models were asked for, each answer counted once, whichever transcripts repeat it. */
export interface UsageRecords {
  /** An answer that is known stays with its session; of its two readings the one with more output is kept. */
  recordUsage(answers: readonly CountedAnswer[], marks: readonly TranscriptMark[]): Promise<void>;
  /** By session. */
  recordedUsage(sessionIds: readonly string[]): Promise<Map<string, Usage>>;
  /** Those of the answers that are counted already. */
  countedAnswers(answers: readonly Pick<Answer, "messageId" | "requestId">[]): Promise<CountedAnswer[]>;
  transcriptMarks(
    of: { paths: readonly string[] } | { sessionIds: readonly string[] },
  ): Promise<TranscriptMark[]>;
  /** Every transcript of these names' sessions. */
  transcriptsOf(names: readonly string[]): Promise<NamedTranscript[]>;
  /** Sessions that have ended and whose transcript was not read since. */
  uncountedSessions(): Promise<Session[]>;
  /** The last to be started, of any name, newest last. */
  latestSessions(limit: number): Promise<Session[]>;
}
