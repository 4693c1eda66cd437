import { ORCHESTRATOR } from "../domain/names.ts";
import { logError } from "../effects/logs.ts";
import { pathsOf } from "../effects/paths.ts";
import { exitAtOnce, readStdin, readText, writeStdout } from "../effects/raw-files.ts";
import { hashToken } from "../effects/tokens.ts";
import { FOR_A_HOOK } from "../store/sqlite/connection.ts";
import { openMail } from "../store/sqlite/mail.ts";
import { type HookCall, parseCall } from "./handle.ts";

/**
 * Answers one hook event: `<entry> <worker|orchestrator> <event> <root>`, the payload on stdin. It ends with 0 whatever
 * happens, since a hook never fails a worker because of us, and it ends at once: closing a database would copy its log
 * into it on every tool call, while a process that just stops leaves that to whoever comes by with time.
 */
export function answer(handle: (call: HookCall) => Promise<void>): void {
  const [role = "", eventName = "", root = ""] = process.argv.slice(2);
  ring(handle, role, eventName, root)
    .catch((error: unknown) => report(root, `hook ${eventName}`, error))
    .finally(exitAtOnce);
}

async function ring(
  handle: (call: HookCall) => Promise<void>,
  role: string,
  eventName: string,
  root: string,
): Promise<void> {
  const { OVERSEER_AGENT_NAME, OVERSEER_TOKEN, CLAUDE_PID } = process.env;
  // In a worktree, the hooks of the main checkout fire beside the worker's own.
  if (role === "orchestrator" && (OVERSEER_AGENT_NAME || OVERSEER_TOKEN)) return;
  if (role === "worker" && !OVERSEER_TOKEN) return;
  // The person's own session asks after every tool use, and most often nothing waits: then not even stdin is read.
  if (role === "orchestrator" && eventName.startsWith("PostTool") && (await isQuiet(root))) return;
  await handle({
    ...parseCall(eventName, readStdin()),
    root,
    worker: role === "worker" && OVERSEER_TOKEN ? { tokenHash: hashToken(OVERSEER_TOKEN) } : null,
    agent: OVERSEER_AGENT_NAME ?? null,
    env: process.env,
    claudePid: Number(CLAUDE_PID) || process.ppid,
    now: Date.now(),
    print: writeStdout,
    finish: (name, ...options) => startFinishing(root, [name, ...options]),
  });
}

/** The one thing that takes git and tmux: not while Claude Code waits for the hook. */
async function startFinishing(root: string, words: readonly string[]): Promise<void> {
  const { startDetached } = await import("../effects/run.ts");
  const entry = process.argv[1] ?? "";
  startDetached([`${entry.slice(0, entry.lastIndexOf("/dist/"))}/bin/overseer`, "finish", ...words], root);
}

async function isQuiet(root: string): Promise<boolean> {
  const mail = openMail(pathsOf(root).mail, FOR_A_HOOK);
  const { hasPressing, claims } = await mail.glance(ORCHESTRATOR);
  mail.close();
  return !hasPressing && claims.length === 0;
}

function report(root: string, doing: string, error: unknown): void {
  const paths = pathsOf(root);
  try {
    // Nothing to write to where overseer was taken out of the repository meanwhile.
    if (readText(paths.config) !== null) logError(paths, Date.now(), doing, error);
  } catch (failure) {
    process.stderr.write(`overseer: ${doing}: ${String(error)}; not logged: ${String(failure)}\n`);
  }
}
