import type { Run } from "../cli/command.ts";
import { deliveryView, sentText } from "../cli/sent.ts";
import { toBody } from "../cli/values.ts";
import { messageView } from "../cli/views.ts";
import { nudge } from "../flows/nudge.ts";

export const run: Run = async (context, typed) => {
  const [name = "", text = ""] = typed.args;
  const body = await toBody(text, context);
  const sent = await nudge(context.project, await context.caller(), name, body);
  context.output.done({ message: messageView(sent.message), delivery: deliveryView(sent) }, (style) =>
    sentText(sent, style),
  );
};
