import type { Run } from "../cli/command.ts";
import { deliveryView, sentText } from "../cli/sent.ts";
import { toBody, toMessageType, toPriority } from "../cli/values.ts";
import { messageView } from "../cli/views.ts";
import { replyToMail } from "../flows/mail.ts";

export const run: Run = async (context, typed) => {
  const sent = await replyToMail(context.project, await context.caller(), typed.args[0] ?? "", {
    body: await toBody(typed.text("body"), context),
    type: toMessageType(typed.text("type")),
    priority: toPriority(typed.text("priority")),
  });
  context.output.done({ message: messageView(sent.message), delivery: deliveryView(sent) }, (style) =>
    sentText(sent, style),
  );
};
