/**
 * A plain process in place of Claude Code: it fires overseer's hooks exactly as Claude Code does, one for each event it
 * is told on stdin, and says on stdout what each of them would have shown to the model.
 */

import { toHookEvent } from "../src/domain/hook-event.ts";
import { type HookRole, hookCommand } from "../src/domain/hook-settings.ts";
import { hookProgram } from "../src/effects/package.ts";

const [role = "worker", root = "", claudeSession = ""] = process.argv.slice(2);
const { CLAUDE_PID: _, ...env } = process.env;

for await (const line of console) {
  const told: Record<string, unknown> = JSON.parse(line);
  const event = toHookEvent(String(told.event));
  if (!event) throw new Error(`no such event: ${line}`);
  const payload = { session_id: claudeSession, cwd: root, hook_event_name: event, ...told };
  const child = Bun.spawn(["/bin/sh", "-c", hookCommand(role as HookRole, hookProgram(), event, root)], {
    stdin: new TextEncoder().encode(JSON.stringify(payload)),
    stdout: "pipe",
    stderr: "inherit",
    env,
  });
  console.log(
    JSON.stringify({ event, shown: await new Response(child.stdout).text(), exitCode: await child.exited }),
  );
}
