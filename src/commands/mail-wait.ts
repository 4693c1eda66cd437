import type { Run } from "../cli/command.ts";
import { inboxOf, showMail } from "../cli/show-mail.ts";
import { toDuration } from "../cli/values.ts";
import { waitForMail } from "../flows/mail.ts";

export const run: Run = async (context, typed) => {
  const recipient = await inboxOf(context, typed.text("agent"));
  await waitForMail(
    () => context.reopen(),
    recipient,
    toDuration(typed.text("timeout") ?? "10m", "--timeout"),
  );
  await showMail(context, recipient, false);
};
