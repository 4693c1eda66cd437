import type { Run } from "../cli/command.ts";
import { deliveryView, sentText } from "../cli/sent.ts";
import { toBody, toList, toMessageType, toPriority } from "../cli/values.ts";
import { messageView } from "../cli/views.ts";
import { OverseerError } from "../domain/errors.ts";
import { assertOwnName } from "../flows/caller.ts";
import { assertAddress, sendMail } from "../flows/mail.ts";

export const run: Run = async (context, typed) => {
  const caller = await context.caller();
  const from = typed.text("from");
  assertOwnName(caller, from, "--from");
  if (from !== undefined) await assertAddress(context.project, from);
  const to = toList(typed.text("to"));
  if (to.length === 0) throw new OverseerError("usage", "--to names nobody", { hint: "overseer status" });
  const sent = await sendMail(context.project, {
    from: from ?? caller.name,
    to,
    subject: typed.text("subject") ?? "",
    body: await toBody(typed.text("body"), context),
    type: toMessageType(typed.text("type")),
    priority: toPriority(typed.text("priority")) ?? "normal",
    threadId: typed.text("thread") ?? null,
  });
  context.output.done(
    { messages: sent.map(({ message }) => messageView(message)), deliveries: sent.map(deliveryView) },
    (style) => sent.map((one) => sentText(one, style)).join("\n"),
  );
};
