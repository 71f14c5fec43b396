import type { ConditionView } from "../../resources/wire/apps.ts";
import { formatAge } from "../format-time.ts";
import type { ViewOptions } from "../output/format-sections.ts";
import type { Column } from "../output/table.ts";

/** Columns of a condition. */
export function createConditionColumns({ colours, nowMs }: ViewOptions): Column<ConditionView>[] {
  return [
    { header: "TYPE", value: (row: ConditionView) => row.type },
    {
      header: "STATUS",
      value: (row: ConditionView) => row.status,
      colour: (text: string, row: ConditionView) => getConditionColour(row, colours)(text),
    },
    { header: "REASON", value: (row: ConditionView) => row.reason },
    { header: "SINCE", value: (row: ConditionView) => formatAge(row.last_transition_time, nowMs) },
    { header: "MESSAGE", value: (row: ConditionView) => row.message, canShrink: true },
  ];
}

/** Neither good nor bad: something is under way, or was not asked for. */
const neutralWhenFalse: readonly string[] = ["Progressing", "Downloaded", "Loaded"];

/** Stalled and Drifted are bad when True; the others are good then. */
function getConditionColour(
  row: ConditionView,
  colours: ViewOptions["colours"],
): (text: string) => string {
  if (row.status === "Unknown" || row.type === "Progressing") return colours.yellow;
  if (row.status === "False" && neutralWhenFalse.includes(row.type)) return colours.yellow;
  const isNegativeType = row.type === "Stalled" || row.type === "Drifted";
  return (row.status === "True") === isNegativeType ? colours.red : colours.green;
}
