import type { Run } from "../cli/command.ts";
import type { Style } from "../cli/output.ts";
import { toCount } from "../cli/values.ts";
import { messageView } from "../cli/views.ts";
import { formatAge } from "../domain/duration.ts";
import { type Message, printable } from "../domain/mail.ts";
import { listMail } from "../flows/mail.ts";

export const run: Run = async (context, typed) => {
  const from = typed.text("from");
  const to = typed.text("to");
  const messages = await listMail(context.project, await context.caller(), {
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
    isUnread: typed.has("unread"),
    limit: toCount(typed.text("limit"), 20, "--limit"),
  });
  const now = context.clock.now();
  context.output.done({ messages: messages.map(messageView) }, (style) =>
    messages.length > 0 ? messages.map((message) => line(message, now, style)).join("\n") : "No messages.",
  );
};

function line(message: Message, now: number, style: Style): string {
  const mark = message.read ? " " : style.yellow("*");
  const age = style.dim(`${formatAge(now - message.createdAt)} ago`);
  return `${mark} ${style.bold(message.id)}  ${message.from} to ${message.to}  ${printable(message.subject)}  ${age}`;
}
