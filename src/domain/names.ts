import { OverseerError } from "./errors.ts";

export const ORCHESTRATOR = "orchestrator";
export const HUMAN = "human";
/** Addresses that always exist, whether anybody runs under them or not. */
export const STANDING_ADDRESSES: readonly string[] = [ORCHESTRATOR, HUMAN];

const NAME = /^[a-z][a-z0-9-]{0,39}$/;
const RESERVED = new Set([ORCHESTRATOR, HUMAN, "overseer", "remediation", "all"]);
const AUTO_WORKER = /^auto-[0-9]+$/;
const TASK_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export function isAgentName(text: string): boolean {
  return NAME.test(text) && !RESERVED.has(text) && !AUTO_WORKER.test(text);
}

export function assertAgentName(text: string): void {
  if (!NAME.test(text)) {
    throw new OverseerError("name_invalid", `${quote(text)} is not a name`, {
      hint: "a name is 1 to 40 lower-case letters, digits and dashes, and begins with a letter",
    });
  }
  if (!isAgentName(text)) {
    throw new OverseerError("name_reserved", `${quote(text)} is reserved`, { hint: "choose another name" });
  }
}

export function nameTaken(name: string): OverseerError {
  return new OverseerError("name_taken", `${name} is the name of a live session`, {
    hint: "choose another name, or see who is there: overseer status",
  });
}

export function isTaskId(text: string): boolean {
  return TASK_ID.test(text) && !text.includes("..") && !text.endsWith(".") && !text.endsWith(".lock");
}

export function assertTaskId(text: string): void {
  if (isTaskId(text)) return;
  throw new OverseerError("task_id_invalid", `${quote(text)} is not a task id`, {
    hint: "overseer task list",
  });
}

/** User input in a message: bounded, on one line, without control characters. */
export function quote(text: string): string {
  const shown = text.length > 60 ? `${text.slice(0, 57)}...` : text;
  // JSON leaves those beyond ASCII alone; one of them begins a terminal sequence.
  return JSON.stringify(shown).replace(/\p{Cc}/gu, "\ufffd");
}
