import { type Injection, MAX_INJECTION_LENGTH, type Message } from "../domain/mail.ts";
import { assertOwnName } from "../flows/caller.ts";
import { assertAddress, checkMail } from "../flows/mail.ts";
import type { Caller } from "../flows/project.ts";
import type { Context } from "./context.ts";
import type { Output } from "./output.ts";
import { messageText, messageView } from "./views.ts";

/** A model sees at most 30,000 characters of a command's output; what it would not see must not be in it. */
const MAX_SHOWN_LENGTH = 24_000;

/** Prints the unread mail of the caller, or of the agent named, and marks it read. */
export async function showMail(
  context: Context,
  agent: string | undefined,
  isInjected: boolean,
): Promise<void> {
  const recipient = await inboxOf(context, agent);
  await checkMail(context.project, {
    recipient,
    maxLength: isInjected ? MAX_INJECTION_LENGTH : MAX_SHOWN_LENGTH,
    show: async (injection) => {
      print(context.output, recipient, injection, isInjected);
      await context.output.flushed();
    },
  });
}

export async function inboxOf(context: Context, agent: string | undefined): Promise<string> {
  const caller: Caller = await context.caller();
  assertOwnName(caller, agent, "--agent");
  if (agent !== undefined) await assertAddress(context.project, agent);
  return agent ?? caller.name;
}

function print(output: Output, recipient: string, injection: Injection, isInjected: boolean): void {
  const { included, text, left } = injection;
  output.done(
    { messages: included.map((message) => messageView({ ...message, read: true })), left },
    (style) => {
      if (isInjected) return text;
      if (included.length === 0) return `No unread mail for ${recipient}.`;
      const shown = included.map((message) => messageText(shortened(message), style)).join("\n\n");
      return left > 0 ? `${shown}\n\n${style.yellow(`${left} more unread: overseer mail check`)}` : shown;
    },
  );
}

/** A message that is too long to be shown beside others is named, as the hooks do it. */
function shortened(message: Message): Message {
  if (message.body.length <= MAX_SHOWN_LENGTH) return message;
  const body = `This message has ${message.body.length} characters. Read it with: overseer mail read ${message.id}`;
  return { ...message, body };
}
