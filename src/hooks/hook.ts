import { logError } from "../effects/logs.ts";
import { pathsOf } from "../effects/paths.ts";
import { readStdin } from "../effects/raw-files.ts";
import { hashToken } from "../effects/tokens.ts";
import { handleHook, parseCall } from "./handle.ts";

/**
 * The hook command of every settings file: `hook.js <worker|orchestrator> <event> <root>`, the payload on stdin. It ends
 * with 0 whatever happens: a hook never fails a worker because of us.
 */
async function main(role: string, eventName: string, root: string): Promise<void> {
  const { OVERSEER_AGENT_NAME, OVERSEER_TOKEN, CLAUDE_PID } = process.env;
  // In a worktree, the hooks of the main checkout fire beside the worker's own.
  if (role === "orchestrator" && (OVERSEER_AGENT_NAME || OVERSEER_TOKEN)) return;
  if (role === "worker" && !OVERSEER_TOKEN) return;
  const text = readStdin();
  await handleHook({
    ...parseCall(eventName, text),
    root,
    worker: role === "worker" && OVERSEER_TOKEN ? { tokenHash: hashToken(OVERSEER_TOKEN) } : null,
    claudePid: Number(CLAUDE_PID) || process.ppid,
    now: Date.now(),
    print: (output) => process.stdout.write(output),
  });
}

const [role = "", eventName = "", root = ""] = process.argv.slice(2);
main(role, eventName, root).catch((error: unknown) => reportTo(root, `hook ${eventName}`, error));

function reportTo(folder: string, doing: string, error: unknown): void {
  try {
    logError(pathsOf(folder), Date.now(), doing, error);
  } catch (failure) {
    process.stderr.write(`overseer: ${doing}: ${String(error)}; not logged: ${String(failure)}\n`);
  }
}
