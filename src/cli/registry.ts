import { LOG_NAMES } from "../domain/hook-event.ts";
import { SENDABLE_TYPES } from "../domain/mail.ts";
import { PRIORITIES, TASK_STATUSES } from "../domain/task.ts";
import type { ArgumentSpec, CommandSpec, OptionSpec } from "./command.ts";

const AGENT: OptionSpec = { flags: "--agent <name>", meaning: "whose; a worker is always itself" };
const WORKER: ArgumentSpec = { name: "name", meaning: "the worker", isAgent: true };
const BODY: OptionSpec = { flags: "--body <text>", meaning: "the text; - reads it from standard input" };

/** What a word alone, such as `overseer mail`, stands for. */
export const GROUPS: Readonly<Record<string, string>> = {
  config: "what is configured, and where each value comes from",
  task: "the work there is to do",
  worktree: "the workers' checkouts and branches",
  mail: "messages between agents, the orchestrator and you",
};

/** The only list of commands. */
export const COMMANDS: readonly CommandSpec[] = [
  {
    path: ["init"],
    isForAnybody: true,
    summary: "set overseer up in this repository",
    load: () => import("../commands/init.ts"),
  },
  {
    path: ["uninstall"],
    isForAnybody: true,
    summary: "take out what init put in, with all tasks, mail and logs",
    load: () => import("../commands/uninstall.ts"),
  },
  {
    path: ["sling"],
    summary: "start a worker on a task, in a worktree and a tmux pane of its own",
    arguments: [{ name: "task", meaning: "a task's id, or the text of a new one" }],
    options: [
      {
        flags: "--capability <role>",
        meaning: "builder, scout, reviewer, lead, merger, or what your manifest has",
        isRequired: true,
      },
      { flags: "--name <name>", meaning: "what the worker is called", isRequired: true },
      { flags: "--spec <path>", meaning: "a file of this repository that says more" },
      {
        flags: "--files <paths>",
        meaning: "files, folders or globs that are this worker's alone, separated by commas",
      },
      { flags: "--model <model>", meaning: "the model, over the configuration's" },
      { flags: "--base <ref>", meaning: "what its branch begins at; the canonical branch unless given" },
      { flags: "--parent <name>", meaning: "who it works for; whoever slings it unless given" },
      { flags: "--depth <n>", meaning: "checked against the level that follows from its parent" },
      { flags: "--no-wait", meaning: "return as soon as it is launched" },
    ],
    examples: [
      'overseer sling "Add a login form with e-mail and password" --capability builder --name ada',
      "overseer sling t-gpa8s8 --capability builder --name ada --files src/login,docs/*.md",
    ],
    load: () => import("../commands/sling.ts"),
  },
  {
    path: ["status"],
    summary: "who works on what, and what waits",
    options: [{ flags: "--watch", meaning: "go on showing it, every second" }],
    load: () => import("../commands/status.ts"),
  },
  {
    path: ["metrics"],
    summary: "what the last sessions took and used: time, tokens, cost, outcome",
    options: [{ flags: "--last <n>", meaning: "how many sessions, the newest last (20)" }],
    load: () => import("../commands/metrics.ts"),
  },
  {
    path: ["wait"],
    summary: "wait for workers to come to a state",
    arguments: [
      { ...WORKER, name: "names", isOptional: true, isList: true, meaning: "all that live unless given" },
    ],
    options: [
      { flags: "--any", meaning: "until the first of them is there, not all" },
      {
        flags: "--for <state>",
        meaning: "the state; completed unless given",
        choices: ["completed", "idle", "waiting"],
      },
      { flags: "--timeout <duration>", meaning: "how long, such as 30s or 10m (10m)" },
    ],
    load: () => import("../commands/wait.ts"),
  },
  {
    path: ["peek"],
    summary: "print what a worker's pane shows",
    arguments: [WORKER],
    options: [{ flags: "--lines <n>", meaning: "so many lines before the screen, too" }],
    load: () => import("../commands/peek.ts"),
  },
  {
    path: ["attach"],
    summary: "look over a worker's shoulder, in its own pane; leave with Ctrl-b d",
    arguments: [WORKER],
    load: () => import("../commands/attach.ts"),
  },
  {
    path: ["diff"],
    summary: "print what a worker has changed, committed or not",
    arguments: [WORKER],
    options: [{ flags: "--stat", meaning: "only which files and how much" }],
    load: () => import("../commands/diff.ts"),
  },
  {
    path: ["logs"],
    summary: "print what a worker did",
    arguments: [WORKER],
    options: [
      { flags: "--follow", meaning: "go on printing what it does" },
      { flags: "--lines <n>", meaning: "how many of the last lines (200)" },
    ],
    load: () => import("../commands/logs.ts"),
  },
  {
    path: ["inspect"],
    summary: "print everything that is known of a worker",
    arguments: [WORKER],
    load: () => import("../commands/inspect.ts"),
  },
  {
    path: ["stop"],
    summary: "end a worker's process; its worktree, branch and task stay",
    arguments: [{ ...WORKER, isOptional: true }],
    options: [{ flags: "--all", meaning: "every live worker" }],
    load: () => import("../commands/stop.ts"),
  },
  {
    path: ["resume"],
    summary: "let a worker that was stopped, or died, go on where it was",
    arguments: [{ ...WORKER, isOptional: true }],
    options: [
      { flags: "--all", meaning: "everybody who has died or was stopped; the same as naming nobody" },
      { flags: "--no-wait", meaning: "return as soon as it is launched" },
    ],
    load: () => import("../commands/resume.ts"),
  },
  {
    path: ["worktree", "list"],
    summary: "list the workers' worktrees and branches, and what has not landed",
    load: () => import("../commands/worktree-list.ts"),
  },
  {
    path: ["worktree", "clean"],
    summary: "remove worktrees and branches whose work has landed",
    arguments: [{ ...WORKER, isOptional: true }],
    options: [
      { flags: "--completed", meaning: "of every worker that has completed" },
      { flags: "--all", meaning: "of every worker that does not live any more" },
      { flags: "--force", meaning: "also what has not landed, saved first under refs/overseer/rescue/" },
    ],
    load: () => import("../commands/worktree-clean.ts"),
  },
  {
    path: ["finish"],
    summary: "carry out what a worker's task close announced; its Stop hook calls this",
    arguments: [WORKER],
    options: [
      {
        flags: "--if-closed",
        meaning:
          "announce it first, if the task is closed in its tracker; the hook that sees bd close calls this",
      },
    ],
    load: () => import("../commands/finish.ts"),
  },
  {
    path: ["task", "create"],
    summary: "create a task",
    arguments: [{ name: "title", meaning: "what is to be done, in one line" }],
    options: [
      BODY,
      { flags: "--files <paths>", meaning: "files, folders or globs it is about, separated by commas" },
      { flags: "--depends <ids>", meaning: "tasks that must be done first, separated by commas" },
      {
        flags: "--priority <priority>",
        meaning: "how urgent it is; normal unless given",
        choices: PRIORITIES,
      },
      { flags: "--tag <tag>", meaning: "a tag; may be given several times", isList: true },
    ],
    examples: ['overseer task create "Add a login form" --files src/login --priority high'],
    load: () => import("../commands/task-create.ts"),
  },
  {
    path: ["task", "list"],
    summary: "list the open tasks",
    options: [
      { flags: "--status <status>", meaning: "only these", choices: TASK_STATUSES },
      { flags: "--all", meaning: "closed ones too" },
      { flags: "--limit <n>", meaning: "how many at the most (100)" },
    ],
    load: () => import("../commands/task-list.ts"),
  },
  {
    path: ["task", "show"],
    summary: "show one task whole",
    arguments: [{ name: "id", meaning: "the task" }],
    load: () => import("../commands/task-show.ts"),
  },
  {
    path: ["task", "ready"],
    summary: "list the tasks that nothing stands in the way of",
    load: () => import("../commands/task-ready.ts"),
  },
  {
    path: ["task", "close"],
    summary: "say that a task is done; a worker ends its turn after that",
    arguments: [{ name: "id", meaning: "the task" }],
    options: [{ flags: "--reason <text>", meaning: "what was done", isRequired: true }],
    load: () => import("../commands/task-close.ts"),
  },
  {
    path: ["nudge"],
    summary: "say something to a worker now: after its next tool use, or at once if it is idle",
    arguments: [WORKER, { name: "text", meaning: "what to say, or - for standard input" }],
    examples: ['overseer nudge ada "Use the new API, the old one goes away"'],
    load: () => import("../commands/nudge.ts"),
  },
  {
    path: ["mail", "send"],
    summary: "send a message",
    options: [
      {
        flags: "--to <names>",
        meaning: "names separated by commas, @all, or @builder and the like",
        isRequired: true,
      },
      { flags: "--subject <text>", meaning: "what it is about, in one line", isRequired: true },
      BODY,
      {
        flags: "--type <type>",
        meaning: "what kind of message; status unless given",
        choices: SENDABLE_TYPES,
      },
      {
        flags: "--priority <priority>",
        meaning: "how urgent it is; normal unless given",
        choices: PRIORITIES,
      },
      { flags: "--thread <id>", meaning: "the thread it belongs to" },
      { flags: "--from <name>", meaning: "the sender; a worker is always itself" },
    ],
    examples: ['overseer mail send --to ada --subject "Use the new API" --body - --priority high < note.md'],
    load: () => import("../commands/mail-send.ts"),
  },
  {
    path: ["mail", "check"],
    summary: "print your unread mail and mark it read",
    options: [
      AGENT,
      { flags: "--inject", meaning: "as the hooks show it to a model; nothing when there is none" },
    ],
    load: () => import("../commands/mail-check.ts"),
  },
  {
    path: ["mail", "wait"],
    summary: "wait for mail, then print it and mark it read",
    options: [AGENT, { flags: "--timeout <duration>", meaning: "how long, such as 30s or 10m (10m)" }],
    load: () => import("../commands/mail-wait.ts"),
  },
  {
    path: ["mail", "list"],
    summary: "list messages without marking anything",
    options: [
      { flags: "--from <name>", meaning: "only from this sender" },
      { flags: "--to <name>", meaning: "only to this recipient" },
      { flags: "--unread", meaning: "only unread ones" },
      { flags: "--limit <n>", meaning: "how many at the most (20)" },
    ],
    load: () => import("../commands/mail-list.ts"),
  },
  {
    path: ["mail", "read"],
    summary: "print one message whole; yours counts as read then",
    arguments: [{ name: "id", meaning: "the message" }],
    load: () => import("../commands/mail-read.ts"),
  },
  {
    path: ["mail", "reply"],
    summary: "answer a message in its thread",
    arguments: [{ name: "id", meaning: "the message" }],
    options: [
      { ...BODY, isRequired: true },
      {
        flags: "--type <type>",
        meaning: "what kind of message; status unless given",
        choices: SENDABLE_TYPES,
      },
      {
        flags: "--priority <priority>",
        meaning: "how urgent it is; as the message was unless given",
        choices: PRIORITIES,
      },
    ],
    load: () => import("../commands/mail-reply.ts"),
  },
  {
    path: ["events"],
    summary: "what happened, oldest first",
    options: [
      { flags: "--agent <name>", meaning: "only of this agent" },
      { flags: "--type <type>", meaning: "a type such as mail.sent, or a family such as mail" },
      { flags: "--since <when>", meaning: "a duration such as 2h, or a date" },
      { flags: "--limit <n>", meaning: "how many at the most (50)" },
      { flags: "--follow", meaning: "go on printing what happens" },
    ],
    load: () => import("../commands/events.ts"),
  },
  {
    path: ["prime"],
    summary: "what an agent must know to begin or go on",
    options: [AGENT, { flags: "--compact", meaning: "only what must not be forgotten" }],
    load: () => import("../commands/prime.ts"),
  },
  {
    path: ["log"],
    summary: "do what the hook of an event does; its JSON on standard input",
    arguments: [
      {
        name: "event",
        meaning: `Claude Code's name for it, or ${Object.keys(LOG_NAMES).join(", ")}`,
        choices: Object.keys(LOG_NAMES),
      },
    ],
    options: [AGENT],
    load: () => import("../commands/log.ts"),
  },
  {
    path: ["config", "show"],
    summary: "print every value in effect and where it comes from",
    load: () => import("../commands/config-show.ts"),
  },
  {
    path: ["config", "validate"],
    summary: "check .overseer/config.yaml, and let the hooks know",
    load: () => import("../commands/config-validate.ts"),
  },
  {
    path: ["doctor"],
    isForAnybody: true,
    summary: "look for what is broken",
    options: [{ flags: "--fix", meaning: "repair what can be repaired without losing anything" }],
    load: () => import("../commands/doctor.ts"),
  },
  {
    path: ["completions"],
    isForAnybody: true,
    summary: "print a completion script for your shell",
    arguments: [
      {
        name: "shell",
        meaning: "your shell; agents prints the names that its script offers",
        choices: ["bash", "zsh", "fish", "agents"],
      },
    ],
    examples: ["overseer completions bash > ~/.local/share/bash-completion/completions/overseer"],
    load: () => import("../commands/completions.ts"),
  },
];
