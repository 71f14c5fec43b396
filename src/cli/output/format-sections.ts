import type { Colors } from "../colours.ts";
import { displayWidth, toSingleLine } from "./display-width.ts";

/** The options of a description: its colours, the current time for ages, and the terminal's width. */
export interface ViewOptions {
  readonly colours: Colors;
  readonly nowMs: number;
  readonly width: number | undefined;
}

/** Returns the width of a table within an indented section. */
export function getInnerWidth({ width }: ViewOptions): number | undefined {
  return width === undefined ? undefined : width - 2;
}

/** Formats lines such as "Name:   hello", with all values in one column; a list has one line per value. */
export function formatFields(
  entries: readonly (readonly [string, string | readonly string[] | undefined])[],
): string {
  const present = entries.filter(
    (entry): entry is readonly [string, string | readonly string[]] =>
      entry[1] !== undefined && entry[1].length > 0,
  );
  const width = Math.max(...present.map(([label]) => displayWidth(label))) + 1;
  return present
    .flatMap(([label, value]) => {
      const lines = typeof value === "string" ? [value] : value;
      return lines.map(
        (line, index) => `${(index === 0 ? `${label}:` : "").padEnd(width)}  ${line}`,
      );
    })
    .join("\n");
}

/** Formats a heading with its indented body. */
export function formatSection(heading: string, body: string, options: ViewOptions): string {
  const indented = body
    .trimEnd()
    .split("\n")
    .map((line) => (line === "" ? "" : `  ${line}`))
    .join("\n");
  return `${options.colours.bold(heading)}\n${indented}`;
}

/** Formats a value on one line. Does not shorten the value. */
export function formatShortValue(value: unknown): string {
  if (value === undefined) return "(none)";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return toSingleLine(text);
}
