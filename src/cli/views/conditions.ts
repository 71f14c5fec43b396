import type { ConditionView } from "../../resources/wire/apps.ts";
import { formatAge } from "../format-time.ts";
import { formatSection, getInnerWidth, type ViewOptions } from "../output/format-sections.ts";
import { type Column, formatTable } from "../output/table.ts";

export function formatConditionsSection(
  conditions: readonly ConditionView[],
  noun: "app" | "model",
  options: ViewOptions,
): string {
  const body =
    conditions.length === 0
      ? `none yet: no controller has observed the ${noun}`
      : formatTable(conditions, createConditionColumns(options), { width: getInnerWidth(options) });
  return formatSection("Conditions:", body, options);
}

export function formatGeneration(generation: number, observed: number): string {
  return generation === observed
    ? String(generation)
    : `${generation}; the controller has only observed generation ${observed}`;
}

function createConditionColumns({ colours, nowMs }: ViewOptions): Column<ConditionView>[] {
  return [
    { header: "TYPE", value: (row: ConditionView) => row.type },
    {
      header: "STATUS",
      value: (row: ConditionView) => row.status,
      colour: (text: string, row: ConditionView) => getConditionColour(row, colours)(text),
    },
    { header: "REASON", value: (row: ConditionView) => row.reason, dropOrder: 2 },
    {
      header: "SINCE",
      value: (row: ConditionView) => formatAge(row.last_transition_time, nowMs),
      dropOrder: 1,
    },
    { header: "MESSAGE", value: (row: ConditionView) => row.message, canShrink: true },
  ];
}

/**
 * The types of conditions that are neither good nor bad if their status is False: the work is in progress, or was not
 * requested.
 */
const neutralWhenFalse: readonly string[] = ["Progressing", "Downloaded", "Loaded"];

/** Chooses the colour of a condition: Stalled and Drifted are bad when True; all other types are good when True. */
function getConditionColour(
  row: ConditionView,
  colours: ViewOptions["colours"],
): (text: string) => string {
  if (row.status === "Unknown" || row.type === "Progressing") return colours.yellow;
  if (row.status === "False" && neutralWhenFalse.includes(row.type)) return colours.yellow;
  const isNegativeType = ["Stalled", "Drifted", "FetchFailed"].includes(row.type);
  return (row.status === "True") === isNegativeType ? colours.red : colours.green;
}
