import type { EventView } from "../../resources/wire/events.ts";
import type { Colors } from "../colours.ts";
import { formatAge } from "../format-time.ts";
import { formatSection, getInnerWidth, type ViewOptions } from "../output/format-sections.ts";
import { type Column, formatTable } from "../output/table.ts";
import { formatReference } from "../resource-references.ts";

/** Returns the columns of a table of events. With `hasObject`, one column shows the resource of each event. */
export function createEventColumns(
  colours: Colors,
  nowMs: number,
  hasObject: boolean,
): Column<EventView>[] {
  return [
    { header: "LAST SEEN", value: (event) => formatAge(event.last_time, nowMs), isVolatile: true },
    {
      header: "TYPE",
      dropOrder: 1,
      value: (event) => event.type,
      colour: (text, event) => (event.type === "Warning" ? colours.yellow(text) : text),
    },
    { header: "REASON", value: (event) => event.reason, dropOrder: 2 },
    ...(hasObject ? [{ header: "OBJECT", value: formatEventObject }] : []),
    {
      header: "MESSAGE",
      value: (event) => (event.count > 1 ? `${event.message} (x${event.count})` : event.message),
      canShrink: true,
    },
  ];
}

export function formatEventObject(event: Pick<EventView, "kind" | "name">): string {
  return event.kind === null ? event.name || "berth" : formatReference(event.kind, event.name);
}

export function formatEventsSection(events: readonly EventView[], options: ViewOptions): string {
  const { colours, nowMs } = options;
  const body =
    events.length === 0
      ? "none"
      : formatTable([...events].toReversed(), createEventColumns(colours, nowMs, false), {
          width: getInnerWidth(options),
        });
  return formatSection("Events:", body, options);
}
