import type { Run } from "../cli/command.ts";
import { toBody, toMessageType, toPriority } from "../cli/values.ts";
import { messageView } from "../cli/views.ts";
import { replyToMail } from "../flows/mail.ts";

export const run: Run = async (context, typed) => {
  const message = await replyToMail(context.project, await context.caller(), typed.args[0] ?? "", {
    body: await toBody(typed.text("body"), context),
    type: toMessageType(typed.text("type")),
    priority: toPriority(typed.text("priority")),
  });
  context.output.done(
    { message: messageView(message) },
    (style) => `${style.bold(message.id)} sent to ${message.to}`,
  );
};
