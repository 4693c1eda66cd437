import { isWriter, judge } from "../domain/guard.ts";
import { type Denial, type Place, readFacts } from "../domain/guard-facts.ts";
import { ORCHESTRATOR } from "../domain/names.ts";
import { logError } from "../effects/logs.ts";
import { agentFiles, type Paths, pathsOf } from "../effects/paths.ts";
import { followPath, readText } from "../effects/raw-files.ts";
import { type HookCall, handleHook } from "./handle.ts";

/** A worker's tool call, or its subagent's. A denial is printed at once: whatever fails afterwards, it was denied. */
export async function handleToolStart(call: HookCall): Promise<void> {
  const denial = call.worker === null ? null : judged(call, pathsOf(call.root));
  if (denial) {
    const decision = { permissionDecision: "deny", permissionDecisionReason: `overseer: ${denial.reason}` };
    call.print(JSON.stringify({ hookSpecificOutput: { hookEventName: call.event, ...decision } }));
  }
  await handleHook(call, denial);
}

function judged(call: HookCall, paths: Paths): Denial | null {
  const { toolName, toolInput, cwd } = call.payload;
  if (toolName !== "Bash" && !isWriter(toolName)) return null;
  try {
    const facts = readFacts(readText(agentFiles(paths, call.agent ?? "").guard));
    if (facts) return judge(toolName, toolInput, facts, placeOf(call, cwd ?? facts.worktree));
  } catch (error) {
    logError(paths, call.now, `judging ${toolName}`, error);
  }
  // A command may still be stopped by the environment and at the merge; a file would be written.
  return isWriter(toolName) ? BLIND : null;
}

const BLIND: Denial = {
  rule: "blind",
  reason: `It cannot be told what you may write: your guard.json is missing or damaged. Somebody has to look at overseer doctor: overseer mail send --to ${ORCHESTRATOR} --priority high --subject "..." --body "..."`,
};

function placeOf({ env, root }: HookCall, cwd: string): Place {
  const { HOME, TMPDIR } = env;
  const own = TMPDIR?.startsWith("/") ? [TMPDIR] : [];
  return {
    cwd,
    variables: { HOME, TMPDIR, PWD: cwd, OVERSEER_ROOT: root },
    temp: ["/tmp", "/var/tmp", ...own],
    resolve: followPath,
  };
}
