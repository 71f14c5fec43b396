import type { ConditionView } from "../../resources/wire/apps.ts";
import { formatAge } from "../age.ts";
import type { Look } from "../output/sections.ts";
import type { Column } from "../output/table.ts";

/** Columns of a condition. */
export function conditionColumns({ colours, nowMs }: Look): Column<ConditionView>[] {
  return [
    { header: "TYPE", value: (row: ConditionView) => row.type },
    {
      header: "STATUS",
      value: (row: ConditionView) => row.status,
      colour: (text: string, row: ConditionView) => conditionColour(row, colours)(text),
    },
    { header: "REASON", value: (row: ConditionView) => row.reason },
    { header: "SINCE", value: (row: ConditionView) => formatAge(row.last_transition_time, nowMs) },
    { header: "MESSAGE", value: (row: ConditionView) => row.message, shrinks: true },
  ];
}

/** Neither good nor bad: something is under way, or was not asked for. */
const neutralWhenFalse: readonly string[] = ["Progressing", "Downloaded", "Loaded"];

/** Stalled and Drifted are bad when True; the others are good then. */
function conditionColour(row: ConditionView, colours: Look["colours"]): (text: string) => string {
  if (row.status === "Unknown" || row.type === "Progressing") return colours.yellow;
  if (row.status === "False" && neutralWhenFalse.includes(row.type)) return colours.yellow;
  const isBadNews = row.type === "Stalled" || row.type === "Drifted";
  return (row.status === "True") === isBadNews ? colours.red : colours.green;
}
