/** What Claude Code gives a hook on stdin, as far as overseer looks at it. Checked by hand: a schema library would cost
 * a hook more than everything else it does. */
export interface HookPayload {
  claudeSessionId: string | null;
  transcriptPath: string | null;
  /** The folder in which Claude Code is at work. */
  cwd: string | null;
  /** Set on events of a subagent: they are activity, not the worker's own turn. */
  subagentId: string | null;
  toolName: string;
  toolInput: unknown;
  toolResponse: unknown;
  durationMs: number | null;
  error: string | null;
  source: string | null;
  reason: string | null;
  message: string | null;
  notificationType: string | null;
  lastAssistantMessage: string | null;
  /** On a Stop: the turn that ends was begun by a Stop hook. */
  isContinued: boolean;
}

/** Null when the text is not a JSON object. */
export function readPayload(text: string): HookPayload | null {
  const raw = parseObject(text);
  if (!raw) return null;
  return {
    claudeSessionId: string(raw.session_id),
    transcriptPath: string(raw.transcript_path),
    cwd: string(raw.cwd),
    subagentId: string(raw.agent_id),
    toolName: string(raw.tool_name) ?? "unknown",
    toolInput: raw.tool_input ?? {},
    toolResponse: raw.tool_response ?? null,
    durationMs: typeof raw.duration_ms === "number" ? raw.duration_ms : null,
    error: errorText(raw),
    source: string(raw.source),
    reason: string(raw.reason),
    message: string(raw.message),
    notificationType: string(raw.notification_type),
    lastAssistantMessage: string(raw.last_assistant_message),
    isContinued: raw.stop_hook_active === true,
  };
}

export function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function string(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function errorText(raw: Record<string, unknown>): string | null {
  const parts = [raw.error, raw.error_details].filter((part) => part !== undefined && part !== null);
  if (parts.length === 0) return null;
  return parts.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join(": ");
}
