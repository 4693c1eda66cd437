import type { Run } from "../cli/command.ts";
import { showMail } from "../cli/show-mail.ts";

export const run: Run = async (context, typed) => {
  await showMail(context, typed.text("agent"), typed.has("inject"));
};
