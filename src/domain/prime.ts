import { formatAge } from "./duration.ts";
import { neutralise } from "./mail.ts";

/** What `prime` is made of; whoever gathers it bounds the lists. */
export interface PrimeFacts {
  now: number;
  name: string;
  capability: string;
  isWorker: boolean;
  branch: string | null;
  parent: string | null;
  fileScope: readonly string[];
  task: { id: string; title: string; body: string } | null;
  lastEvents: readonly { at: number; text: string }[];
  unread: readonly { from: string; subject: string; type: string }[];
  unreadTotal: number;
  others: readonly Colleague[];
  readyTasks: readonly { id: string; title: string }[];
}

interface Colleague {
  name: string;
  capability: string;
  state: string;
  task: string | null;
  files: readonly string[];
  since: number;
}

const MAX_LENGTH = 6_000;
const BODY_LENGTH = 2_500;
const SHOWN_TASKS = 8;

/** What an agent must know when it begins, resumes or has just been compacted. Text that others wrote is shortened. */
export function renderPrime(facts: PrimeFacts, isCompact: boolean): string {
  const sections = facts.isWorker ? workerSections(facts, isCompact) : orchestratorSections(facts, isCompact);
  const text = sections.filter((section) => section !== "").join("\n\n");
  return text.length <= MAX_LENGTH
    ? text
    : `${text.slice(0, MAX_LENGTH)}\n... (shortened; overseer status has the rest)`;
}

function workerSections(facts: PrimeFacts, isCompact: boolean): string[] {
  return [
    whoYouAre(facts),
    assignment(facts, isCompact),
    isCompact ? "" : lastEvents(facts),
    openQuestions(facts),
    unreadMail(facts),
    isCompact ? "" : whoElse(facts),
    howToReport(facts),
  ];
}

function orchestratorSections(facts: PrimeFacts, isCompact: boolean): string[] {
  return [
    "# overseer\nYou are the orchestrator of this repository. `overseer --help` lists what you can do.",
    whoElse(facts),
    readyTasks(facts),
    openQuestions(facts),
    unreadMail(facts),
    isCompact ? "" : lastEvents(facts),
  ];
}

function whoYouAre(facts: PrimeFacts): string {
  const branch = facts.branch ? ` on branch ${facts.branch}` : "";
  const scope = facts.fileScope.length > 0 ? `\nYour files: ${neutralise(facts.fileScope.join(", "))}` : "";
  return `# overseer\nYou are ${facts.name}, a ${facts.capability}${branch}.${scope}`;
}

function assignment(facts: PrimeFacts, isCompact: boolean): string {
  if (!facts.task) return "";
  const body = neutralise(facts.task.body)
    .trim()
    .slice(0, isCompact ? BODY_LENGTH / 2 : BODY_LENGTH);
  return `## Your task: ${facts.task.id}\n${oneLine(facts.task.title)}${body ? `\n\n${body}` : ""}`;
}

function lastEvents(facts: PrimeFacts): string {
  if (facts.lastEvents.length === 0) return "";
  const lines = facts.lastEvents.map(
    (event) => `- ${formatAge(facts.now - event.at)} ago: ${oneLine(event.text)}`,
  );
  return `## What happened last\n${lines.join("\n")}`;
}

function openQuestions(facts: PrimeFacts): string {
  const questions = facts.unread.filter(
    (message) => message.type === "question" || message.type === "escalation",
  );
  if (questions.length === 0) return "";
  return `## Open questions\n${questions.map((q) => `- ${q.from} asks: ${oneLine(q.subject)}`).join("\n")}`;
}

function unreadMail(facts: PrimeFacts): string {
  if (facts.unreadTotal === 0) return "";
  const lines = facts.unread.map((message) => `- from ${message.from}: ${oneLine(message.subject)}`);
  const count = facts.unreadTotal === 1 ? "1 unread message" : `${facts.unreadTotal} unread messages`;
  return `## Mail\n${count}, shown to you with your next prompt (or now: overseer mail check)\n${lines.join("\n")}`;
}

function whoElse(facts: PrimeFacts): string {
  if (facts.others.length === 0) return facts.isWorker ? "" : "Nobody is working at the moment.";
  const lines = facts.others.map((other) => {
    const task = other.task ? `, ${oneLine(other.task)}` : "";
    const files = other.files.length > 0 ? `, files: ${oneLine(other.files.join(", "))}` : "";
    const age = formatAge(facts.now - other.since);
    return `- ${other.name} (${other.capability}): ${other.state} for ${age}${task}${files}`;
  });
  return `## Who else works here\n${lines.join("\n")}`;
}

function readyTasks(facts: PrimeFacts): string {
  if (facts.readyTasks.length === 0) return "";
  const lines = facts.readyTasks.slice(0, SHOWN_TASKS).map((task) => `- ${task.id}: ${oneLine(task.title)}`);
  const more = facts.readyTasks.length > SHOWN_TASKS ? "\n- and more: overseer task ready" : "";
  return `## Tasks that are ready\n${lines.join("\n")}${more}`;
}

function howToReport(facts: PrimeFacts): string {
  const to = facts.parent ?? "orchestrator";
  const close = facts.task
    ? `\n- finished: overseer task close ${facts.task.id} --reason "what you did"`
    : "";
  return `## How to report\n- a question or news: overseer mail send --to ${to} --subject "..." --body "..."${close}`;
}

function oneLine(text: string): string {
  return neutralise(text).replaceAll(/\s+/g, " ").slice(0, 200);
}
