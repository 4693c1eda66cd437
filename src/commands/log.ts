import type { Run } from "../cli/command.ts";
import { OverseerError } from "../domain/errors.ts";
import { LOG_NAMES, toHookEvent } from "../domain/hook-event.ts";
import { quote } from "../domain/names.ts";
import { nearest } from "../domain/nearest.ts";

export const run: Run = async (context, typed) => {
  const name = typed.args[0] ?? "";
  const event = toHookEvent(name);
  if (!event) {
    const near = nearest(name, Object.keys(LOG_NAMES));
    throw new OverseerError("usage", `${quote(name)} is not an event`, {
      hint: near ? `did you mean ${near}?` : `the events are ${Object.keys(LOG_NAMES).join(", ")}`,
    });
  }
  await context.hook(event, typed.text("agent"));
};
