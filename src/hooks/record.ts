import type { Denial } from "../domain/guard-facts.ts";
import { type HookEvent, interpret, type Meaning, ofDenial } from "../domain/hook-event.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { readCompiled } from "../effects/compiled.ts";
import { type Paths, sessionLogFolder } from "../effects/paths.ts";
import type { Activity, Recorded, SessionKey, Sessions } from "../store/contract.ts";
import { type HookLedger, openHookLedger } from "../store/sqlite/hook-ledger.ts";
import type { HookCall } from "./handle.ts";
import { writeSessionLogs } from "./session-log.ts";

/** After which a worker that has announced its completion has nothing more to do. */
const TURN_ENDS: readonly HookEvent[] = ["Stop", "StopFailure", "SessionEnd"];

/** What a hook has recorded, and what the ledger says about the end of a turn. */
export interface RecordedTurn extends Recorded {
  /** It has said that it is done. */
  isCompleting: boolean;
  /** How many turns in a row mail has begun. */
  mailTurns: number;
}

export async function recordTurn(
  call: HookCall,
  paths: Paths,
  ledger: HookLedger,
  denial: Denial | null,
): Promise<RecordedTurn | null> {
  const recorded = await record(call, paths, ledger, denial);
  if (recorded === null) return null;
  const { id } = recorded.session;
  const isCompleting = TURN_ENDS.includes(call.event) && (await ledger.isCompleting(id));
  const mailTurns = call.payload.isContinued ? await ledger.mailTurns(id) : 0;
  return { ...recorded, isCompleting, mailTurns };
}

export async function withLedger<T>(paths: Paths, work: (ledger: HookLedger) => Promise<T>): Promise<T> {
  const ledger = openHookLedger(paths.ledger);
  try {
    return await work(ledger);
  } finally {
    ledger.close();
  }
}

/** Activity, state, event and logs. Null when nobody has the key. */
export async function record(
  call: HookCall,
  paths: Paths,
  sessions: Sessions,
  denial: Denial | null = null,
): Promise<Recorded | null> {
  const { isRedacting } = readCompiled(paths);
  const reading = { isWorker: call.worker !== null, isRedacting, now: call.now };
  const wanted = interpret(call.event, call.payload, reading);
  const meaning = denial ? ofDenial(wanted, denial, isRedacting) : wanted;
  const key = call.worker ?? (await orchestratorKey(sessions, call));
  const recorded = key && (await sessions.recordActivity(key, toActivity(call, meaning)));
  if (recorded) writeSessionLogs(paths, recorded.session, call.now, meaning);
  return recorded;
}

export async function orchestratorKey(sessions: Sessions, call: HookCall): Promise<SessionKey | null> {
  const { claudeSessionId } = call.payload;
  if (claudeSessionId === null) return null;
  await sessions.ensureOrchestrator({
    id: `ses-${claudeSessionId}`,
    name: ORCHESTRATOR,
    capability: ORCHESTRATOR,
    tokenHash: null,
    startedAt: call.now,
    logFolder: sessionLogFolder(ORCHESTRATOR, call.now),
    claudeSessionId,
    pid: call.claudePid,
  });
  return { orchestrator: claudeSessionId };
}

function toActivity(call: HookCall, meaning: Meaning): Activity {
  const { claudeSessionId, transcriptPath } = call.payload;
  return {
    at: call.now,
    signal: meaning.signal,
    event: meaning.type,
    data: meaning.data,
    ...(claudeSessionId === null ? {} : { claudeSessionId }),
    ...(transcriptPath === null ? {} : { transcriptPath }),
    ...(meaning.tool === null ? {} : { tool: meaning.tool }),
  };
}
