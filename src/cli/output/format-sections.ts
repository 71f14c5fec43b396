import type { Colors } from "../colours.ts";
import { displayWidth, toSingleLine } from "./display-width.ts";

/** How a description looks: colours, the time that ages are counted from, and the terminal's width. */
export interface ViewOptions {
  readonly colours: Colors;
  readonly nowMs: number;
  readonly width: number | undefined;
}

/** The columns that a table within a section may take. */
export function getInnerWidth({ width }: ViewOptions): number | undefined {
  return width === undefined ? undefined : width - 2;
}

/** "Name:   hello" lines, values in one column; a list of values goes one below the other. */
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

/** A heading with what stands below it, indented; undefined where there is nothing to say. */
export function formatSection(heading: string, body: string, options: ViewOptions): string {
  const indented = body
    .trimEnd()
    .split("\n")
    .map((line) => (line === "" ? "" : `  ${line}`))
    .join("\n");
  return `${options.colours.bold(heading)}\n${indented}`;
}

/** A value as it stands in a description: short, on one line. */
export function formatShortValue(value: unknown): string {
  if (value === undefined) return "(none)";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return toSingleLine(text);
}
