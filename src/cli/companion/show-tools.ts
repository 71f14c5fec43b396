import type { DiscoverReport, ToolRow } from "../../client/bus/agent-wire.ts";
import type { Colors } from "../colours.ts";
import { displayWidth } from "../output/display-width.ts";
import { type Column, formatTable } from "../output/table.ts";
import { sanitizeBlock, sanitizeLine } from "./untrusted-text.ts";

/** The minimum width of the description column. In a narrower terminal, descriptions are below their tools. */
const DESCRIPTION_WIDTH_MIN = 60;
const INDENT = "  ";

/**
 * Returns a table of the tools in the given order. Without a width, for pipes, each tool has one line with its whole
 * description. At a terminal, the description is next to the tool or, if the terminal is narrow, below it. There it is
 * cut to its first sentence unless `isFull` is true.
 */
export function showTools(
  tools: readonly ToolRow[],
  isFull: boolean,
  colours: Colors,
  width: number | undefined,
): string {
  const columns: Column<ToolRow>[] = [
    { header: "APP", value: ({ appId }) => sanitizeLine(appId) },
    { header: "TOOL", value: ({ name }) => sanitizeLine(name) },
    {
      header: "TIER",
      value: ({ tier, isDisabled }) => `${sanitizeLine(tier)}${isDisabled ? " (disabled)" : ""}`,
      colour: (text, { tier, isDisabled }) =>
        (isDisabled ? colours.dim : chooseTierColour(colours, tier))(text),
    },
    { header: "UNDO", value: ({ isUndoable }) => (isUndoable ? "yes" : "no") },
  ];
  const described = (value: (tool: ToolRow) => string): Column<ToolRow>[] => [
    ...columns,
    { header: "DESCRIPTION", value, canShrink: true },
  ];
  if (width === undefined) return formatTable(tools, described(formatDescription));
  const describe = (tool: ToolRow) =>
    isFull ? formatDescription(tool) : firstSentence(formatDescription(tool));
  const whole = formatTable(tools, described(describe));
  const isFitting = whole.split("\n").every((line) => displayWidth(line) <= width);
  if (isFitting) return formatTable(tools, described(describe));
  const narrow = formatTable(tools, columns);
  const used = Math.max(...narrow.split("\n").map((line) => displayWidth(line)));
  if (!isFull && width - used >= DESCRIPTION_WIDTH_MIN)
    return formatTable(tools, described(describe), { width });
  const [header = "", ...lines] = narrow.trimEnd().split("\n");
  const rows = tools.map((tool, index) => {
    const text = describe(tool);
    const below = text === "" ? "" : `${colours.dim(sanitizeBlock(text, INDENT, width))}\n`;
    return `${lines[index] ?? ""}\n${below}`;
  });
  return [`${header}\n`, ...rows].join("");
}

/** Describes by what the companion ranks tools, and if it now ranks by words only, why. */
export function showDiscoverState({ tools, vectors }: DiscoverReport): string {
  const searched = `${tools} ${tools === 1 ? "tool" : "tools"}`;
  if (vectors === undefined) return `${searched}, ranked by words; there is no embedding model`;
  const { embedded, weight, timeoutMs, message } = vectors;
  const model = sanitizeLine(vectors.model);
  const state = `${searched}, ranked by words with weight 1 and vectors with weight ${weight}; vectors ${embedded} of ${tools} by ${model}, for which a request waits at most ${timeoutMs} ms`;
  return message === undefined ? state : `${state}\n${sanitizeLine(message)}`;
}

function formatDescription({ description }: ToolRow): string {
  return sanitizeLine(description);
}

function firstSentence(text: string): string {
  const end = /[.!?](?= +\p{Lu})/u.exec(text)?.index;
  return end === undefined ? text : text.slice(0, end + 1);
}

function chooseTierColour(colours: Colors, tier: string): (text: string) => string {
  if (tier === "read") return colours.green;
  return tier === "write" ? colours.yellow : colours.red;
}
