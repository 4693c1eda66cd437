import type { Run } from "../cli/command.ts";
import { messageText, messageView } from "../cli/views.ts";
import { readMail } from "../flows/mail.ts";

export const run: Run = async (context, typed) => {
  const message = await readMail(context.project, await context.caller(), typed.args[0] ?? "");
  context.output.done({ message: messageView(message) }, (style) => messageText(message, style));
};
