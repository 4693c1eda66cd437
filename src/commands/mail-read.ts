import type { Run } from "../cli/command.ts";
import { messageText, messageView } from "../cli/views.ts";
import { readMail } from "../flows/mail.ts";

export const run: Run = async (context, typed) => {
  const caller = await context.caller();
  await readMail(context.project, caller, typed.args[0] ?? "", async (message) => {
    const isRead = message.read || message.to === caller.name;
    context.output.done({ message: messageView({ ...message, read: isRead }) }, (style) =>
      messageText(message, style),
    );
    await context.output.flushed();
  });
};
