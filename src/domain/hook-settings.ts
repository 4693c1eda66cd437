import { HOOK_EVENTS, type HookEvent } from "./hook-event.ts";
import { quoted } from "./shell-word.ts";

export type HookRole = "worker" | "orchestrator";

/** What a hook command starts: absolute paths, so that neither PATH nor the folder it is called in matter. */
export interface HookProgram {
  bun: string;
  config: string;
  /** The folder of the bundled entries. */
  entries: string;
}

interface HookGroup {
  hooks: { type: string; command: string; timeout?: number; asyncRewake?: boolean }[];
}
export type HookGroups = Partial<Record<HookEvent, HookGroup[]>>;

/** The orchestrator is the person's own session: no guard, no record of what it does, only its turns and its mail. */
const ORCHESTRATOR_EVENTS: readonly HookEvent[] = [
  "SessionStart",
  "UserPromptSubmit",
  "PostToolUse",
  "PostToolUseFailure",
  "Stop",
  "StopFailure",
  "SessionEnd",
];
const TIMEOUT_SECONDS = 30;
/** Claude Code counts it in milliseconds, of which a timer takes no more than 2^31. */
const LONGEST_TIMEOUT_SECONDS = 2_000_000;
/** When a session gets its waiter: as it begins, and anew with each turn, also with the one that a waiter began. */
const WAITER_EVENTS: readonly HookEvent[] = ["SessionStart", "UserPromptSubmit"];

export function hookGroups(role: HookRole, program: HookProgram, root: string): HookGroups {
  const events = role === "worker" ? HOOK_EVENTS : ORCHESTRATOR_EVENTS;
  return Object.fromEntries(
    events.map((event) => {
      const command = hookCommand(role, program, event, root);
      const hook = { type: "command", command, timeout: TIMEOUT_SECONDS };
      return [
        event,
        [{ hooks: WAITER_EVENTS.includes(event) ? [hook, waiter(role, program, event, root)] : [hook] }],
      ];
    }),
  );
}

/** `-p`, so that bash runs nothing of the user's first. */
function waiter(
  role: HookRole,
  { entries }: HookProgram,
  event: HookEvent,
  root: string,
): HookGroup["hooks"][number] {
  const command = `exec bash -p ${quoted(`${entries}/waiter.sh`)} ${role} ${quoted(root)} ${event}`;
  return { type: "command", command, timeout: LONGEST_TIMEOUT_SECONDS, asyncRewake: true };
}

/** Events that need more than the others have an entry of their own. */
const ENTRIES = new Map<HookEvent, string>([
  ["SessionStart", "session-start"],
  ["PreToolUse", "tool-start"],
]);

/**
 * Claude Code runs it with `sh -c`. With `exec`, the hook's parent is Claude Code itself. The two options shut out the
 * `.env` and the `bunfig.toml` of the repository, which Bun would otherwise read and run.
 */
export function hookCommand(role: HookRole, program: HookProgram, event: HookEvent, root: string): string {
  const { bun, config, entries } = program;
  const entry = `${entries}/${ENTRIES.get(event) ?? "hook"}.js`;
  return `exec ${quoted(bun)} --no-env-file ${quoted(`--config=${config}`)} ${quoted(entry)} ${role} ${event} ${quoted(root)}`;
}

/** A command that some version of overseer put there. */
export function isOurCommand(command: unknown): boolean {
  const ours =
    /\/dist\/(?:(?:hook|session-start|tool-start)\.js' (?:orchestrator|worker) [A-Za-z]+|waiter\.sh' (?:orchestrator|worker)) '/;
  return typeof command === "string" && ours.test(command);
}

export type Settings = Record<string, unknown>;

/** The user's settings with these hooks after their own. */
export function withHooks(settings: Settings, groups: HookGroups): Settings {
  const theirs = withoutOurHooks(settings);
  const hooks: Record<string, unknown> = isObject(theirs.hooks) ? { ...theirs.hooks } : {};
  for (const [event, ours] of Object.entries(groups)) {
    const before = hooks[event];
    hooks[event] = [...(Array.isArray(before) ? before : []), ...ours];
  }
  return { ...theirs, hooks };
}

/** Whether exactly these hooks of ours are in the settings, in whatever order and whosever hooks stand beside them. */
export function hasHooks(settings: Settings, groups: HookGroups): boolean {
  return isObject(settings.hooks) && ourHooks(settings.hooks).join() === ourHooks(groups).join();
}

function ourHooks(events: Readonly<Record<string, unknown>>): string[] {
  const found = Object.entries(events).flatMap(([event, groups]) =>
    (Array.isArray(groups) ? groups : []).flatMap((group: unknown) => {
      if (!isObject(group) || !Array.isArray(group.hooks)) return [];
      const ours = group.hooks.filter((hook: unknown) => isObject(hook) && isOurCommand(hook.command));
      return ours.map((hook) => JSON.stringify([event, group.matcher, hook]));
    }),
  );
  return found.sort();
}

/** The settings without anything of ours. An event or a section that held nothing else goes with it. */
export function withoutOurHooks(settings: Settings): Settings {
  if (!isObject(settings.hooks)) return settings;
  const hooks: Record<string, unknown> = {};
  let isChanged = false;
  for (const [event, groups] of Object.entries(settings.hooks)) {
    const kept = Array.isArray(groups) ? groups.flatMap(withoutOurs) : groups;
    isChanged ||= JSON.stringify(kept) !== JSON.stringify(groups);
    const isEmptied = Array.isArray(kept) && kept.length === 0 && Array.isArray(groups) && groups.length > 0;
    if (!isEmptied) hooks[event] = kept;
  }
  if (!isChanged) return settings;
  const { hooks: _, ...rest } = settings;
  return Object.keys(hooks).length > 0 ? { ...settings, hooks } : rest;
}

function withoutOurs(group: unknown): unknown[] {
  if (!isObject(group) || !Array.isArray(group.hooks)) return [group];
  const kept = group.hooks.filter((hook: unknown) => !(isObject(hook) && isOurCommand(hook.command)));
  if (kept.length === group.hooks.length) return [group];
  return kept.length === 0 ? [] : [{ ...group, hooks: kept }];
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
