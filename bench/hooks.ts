import { HOOK_EVENTS, type HookEvent } from "../src/domain/hook-event.ts";
import { hookCommand } from "../src/domain/hook-settings.ts";
import { hookProgram, packageFile } from "../src/effects/package.ts";
import { type Case, measure, printTable } from "./measure.ts";
import { bunCommand, makeWorkplace, TOKEN, WORKER } from "./workplace.ts";

/** Every hook event on a warm ledger, against the floor: a Bun script that opens a WAL database and inserts one row. */
export async function benchHooks(rounds: number): Promise<void> {
  const place = await makeWorkplace({ events: 100_000, mails: 20_000, agents: 50 });
  try {
    const { env, root, floorFile } = place;
    const worker = { ...env, OVERSEER_TOKEN: TOKEN, OVERSEER_AGENT_NAME: WORKER, OVERSEER_ROOT: root };
    const program = hookProgram();
    const floor: Case = {
      name: "floor",
      command: bunCommand(packageFile("bench", "floor.ts"), floorFile),
      env,
    };
    const empty: Case = {
      name: "empty Bun script",
      command: bunCommand(packageFile("bench", "empty.ts")),
      env,
    };
    const check: Case = {
      name: "empty inbox check (the orchestrator's PostToolUse)",
      command: hookCommand("orchestrator", program, "PostToolUse", root),
      env,
      input: payload("PostToolUse"),
      bar: 1.1,
    };
    const events = HOOK_EVENTS.map(
      (event): Case => ({
        name: event,
        command: hookCommand("worker", program, event, root),
        env: worker,
        input: payload(event),
        bar: 1.5,
      }),
    );
    const rows = measure([floor, empty, check, ...events], rounds);
    printTable(`hooks: 100,000 events, 20,000 mails, median of ${rounds}, ratio to the floor`, rows);
  } finally {
    place.remove();
  }
}

function payload(event: HookEvent): string {
  return JSON.stringify({
    session_id: "0b0e0000-0000-4000-8000-000000000000",
    transcript_path: "/nowhere/transcript.jsonl",
    cwd: "/nowhere",
    hook_event_name: event,
    source: "startup",
    prompt: "Go on with the login form.",
    tool_name: "Bash",
    tool_input: {
      command: "npm test -- --bail && git commit -am 'login: validate the form'",
      description: "Test, commit",
    },
    tool_response: { stdout: "42 passed, 0 failed\n".repeat(20), stderr: "", interrupted: false },
    tool_use_id: "toolu_01",
    duration_ms: 1234,
    last_assistant_message: "The form is validated.",
    stop_hook_active: false,
    ...(event.endsWith("Failure") ? { error: "Exit code 1" } : {}),
  });
}
