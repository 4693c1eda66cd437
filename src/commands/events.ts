import type { Run } from "../cli/command.ts";
import type { Context } from "../cli/context.ts";
import type { Style } from "../cli/output.ts";
import { toCount, toMoment } from "../cli/values.ts";
import { eventView, iso } from "../cli/views.ts";
import { OverseerError } from "../domain/errors.ts";
import { EVENT_TYPES } from "../domain/event.ts";
import { printable } from "../domain/mail.ts";
import { quote } from "../domain/names.ts";
import { nearest } from "../domain/nearest.ts";
import { type EventFilter, followEvents, listEvents, type StoredEvent } from "../flows/events.ts";

export const run: Run = async (context, typed) => {
  const agent = typed.text("agent");
  const type = typed.text("type");
  const since = typed.text("since");
  if (type !== undefined) assertType(type);
  const filter: EventFilter = {
    ...(agent === undefined ? {} : { agent }),
    ...(type === undefined ? {} : { type }),
    ...(since === undefined ? {} : { since: toMoment(since, context.clock.now()) }),
    limit: toCount(typed.text("limit"), 50, "--limit"),
  };
  if (typed.has("follow")) return await follow(context, filter);
  const events = await listEvents(context.project, filter);
  context.output.done({ events: events.map(eventView) }, (style) =>
    events.length > 0 ? events.map((event) => line(event, style)).join("\n") : "No events match.",
  );
};

async function follow(context: Context, filter: EventFilter): Promise<void> {
  for await (const event of followEvents(() => context.reopen(), filter)) {
    context.output.line(eventView(event), (style) => line(event, style));
  }
}

function assertType(type: string): void {
  const types = Object.keys(EVENT_TYPES);
  const families = new Set(types.map((known) => known.slice(0, known.indexOf("."))));
  if (types.includes(type) || families.has(type)) return;
  const near = nearest(type, [...types, ...families]);
  throw new OverseerError("usage", `there are no events of type ${quote(type)}`, {
    hint: near ? `did you mean ${near}?` : `the families are ${[...families].join(", ")}`,
  });
}

function line(event: StoredEvent, style: Style): string {
  const who = [event.agent, event.taskId].filter((word) => word !== null).join(" ");
  const about = Object.entries(event.data)
    .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0))
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
  const words = [style.dim(iso(event.at) ?? ""), style.bold(event.type), who, style.dim(oneLine(about))];
  return words.filter((word) => word !== "").join(" ");
}

function oneLine(text: string): string {
  return printable(text).replaceAll("\n", " ").slice(0, 300);
}
