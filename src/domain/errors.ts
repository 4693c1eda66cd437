export type ErrorKind = "usage" | "failed" | "missing" | "busy";

/** Every error a person can meet, with its kind; `cli/exit-code` turns the kind into an exit code. */
const KINDS = {
  usage: "usage",
  name_invalid: "usage",
  name_reserved: "usage",
  task_id_invalid: "usage",
  address_unknown: "usage",
  agent_unknown: "usage",
  task_unknown: "usage",
  dependency_unknown: "usage",
  message_unknown: "usage",
  subject_empty: "usage",
  body_too_long: "usage",
  since_invalid: "usage",
  capability_unknown: "usage",
  base_unknown: "usage",
  spec_unreadable: "usage",
  config_invalid: "failed",
  not_initialised: "failed",
  not_a_repository: "failed",
  no_commit: "failed",
  bare_repository: "failed",
  settings_invalid: "failed",
  section_damaged: "failed",
  file_unwritable: "failed",
  not_you: "failed",
  token_unknown: "failed",
  worker_without_token: "failed",
  workers_present: "failed",
  worker_elsewhere: "failed",
  task_closed: "failed",
  task_exists: "failed",
  task_taken: "failed",
  task_waits: "failed",
  scope_taken: "failed",
  scope_outside: "failed",
  may_not_spawn: "failed",
  too_deep: "failed",
  manifest_invalid: "failed",
  branch_exists: "failed",
  branch_left: "failed",
  worktree_left: "failed",
  worktree_dirty: "failed",
  worktree_unmerged: "failed",
  setup_failed: "failed",
  boot_failed: "failed",
  still_alive: "failed",
  pane_missing: "failed",
  ended_otherwise: "failed",
  name_taken: "failed",
  illegal_transition: "failed",
  database_corrupt: "failed",
  database_newer: "failed",
  database_outdated: "failed",
  database_unwritable: "failed",
  disk_full: "failed",
  command_failed: "failed",
  unhealthy: "failed",
  internal: "failed",
  program_missing: "missing",
  bundle_missing: "missing",
  too_many_workers: "busy",
  spawn_paused: "busy",
  command_timeout: "busy",
  database_locked: "busy",
  nothing_yet: "busy",
  changed_meanwhile: "busy",
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof KINDS;

export class OverseerError extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;

  constructor(code: ErrorCode, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "OverseerError";
    this.code = code;
    this.hint = options.hint;
  }

  get kind(): ErrorKind {
    return KINDS[this.code];
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
