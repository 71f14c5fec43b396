import type { EventView } from "../../resources/wire/events.ts";
import { formatAge } from "../age.ts";
import type { Colors } from "../colours.ts";
import { referenceOf } from "../kind-names.ts";
import type { Column } from "../output/table.ts";

/** Columns of an event; `of` adds what it is about. */
export function eventColumns(colours: Colors, nowMs: number, of: boolean): Column<EventView>[] {
  return [
    { header: "LAST SEEN", value: (event) => formatAge(event.last_time, nowMs), volatile: true },
    {
      header: "TYPE",
      value: (event) => event.type,
      colour: (text, event) => (event.type === "Warning" ? colours.yellow(text) : text),
    },
    { header: "REASON", value: (event) => event.reason },
    ...(of ? [{ header: "OBJECT", value: objectOf }] : []),
    {
      header: "MESSAGE",
      value: (event) => (event.count > 1 ? `${event.message} (x${event.count})` : event.message),
      shrinks: true,
    },
  ];
}

export function objectOf(event: Pick<EventView, "kind" | "name">): string {
  return event.kind === null ? event.name || "berth" : referenceOf(event.kind, event.name);
}
