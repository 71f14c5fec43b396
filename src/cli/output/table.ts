import { displayWidth, toSingleLine, truncateToWidth } from "./display-width.ts";

export interface Column<T> {
  readonly header: string;
  readonly value: (row: T) => string;
  /** Colours the padded cell; gets the row, so that a status decides. */
  readonly colour?: (text: string, row: T) => string;
  /** On a terminal that is too narrow, these columns give way, the widest first. */
  readonly canShrink?: boolean;
  readonly isRightAligned?: boolean;
  /** Changes by itself, as an age does: --watch prints no line for it. */
  readonly isVolatile?: boolean;
  /** What --watch compares, where the cell also holds what changes all the time. */
  readonly comparedValue?: (row: T) => string;
}

export interface TableOptions {
  /** Columns of the terminal; undefined: nothing is cut. */
  readonly width?: number | undefined;
  /** Columns get no narrower than this; widened in place, so that later tables line up with this one. */
  readonly columnWidthsMin?: number[];
}

const GAP = "   ";
/** Narrower than this, a column says nothing. */
const SHRUNK_WIDTH_MIN = 12;

/** Columns as kubectl prints them: upper-case headers, three spaces between, no lines. */
export function formatTable<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  options: TableOptions = {},
): string {
  const cells = rows.map((row) => columns.map((column) => toSingleLine(column.value(row)) || "-"));
  const widths = columns.map((column, index) =>
    Math.max(
      displayWidth(column.header),
      options.columnWidthsMin?.[index] ?? 0,
      ...cells.map((row) => displayWidth(row[index] ?? "")),
    ),
  );
  if (options.width !== undefined) shrinkColumns(widths, columns, options.width);
  options.columnWidthsMin?.splice(0, widths.length, ...widths);

  const line = (texts: readonly string[], row: T | undefined) =>
    texts
      .map((text, index) => {
        const column = columns[index];
        const width = widths[index] ?? 0;
        const cut = truncateToWidth(text, width);
        const padding = " ".repeat(Math.max(0, width - displayWidth(cut)));
        const coloured =
          row !== undefined && column?.colour !== undefined ? column.colour(cut, row) : cut;
        return column?.isRightAligned === true ? padding + coloured : coloured + padding;
      })
      .join(GAP)
      .trimEnd();

  const lines = cells.map((texts, index) => line(texts, rows[index]));
  lines.unshift(
    line(
      columns.map((column) => column.header),
      undefined,
    ),
  );
  return lines.map((text) => `${text}\n`).join("");
}

function shrinkColumns<T>(
  widths: number[],
  columns: readonly Column<T>[],
  available: number,
): void {
  const total = () => widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1));
  for (;;) {
    const excess = total() - available;
    if (excess <= 0) return;
    let widest = -1;
    for (const [index, column] of columns.entries()) {
      const width = widths[index] ?? 0;
      if (column.canShrink === true && width > SHRUNK_WIDTH_MIN && width > (widths[widest] ?? 0))
        widest = index;
    }
    if (widest === -1) return;
    const next = Math.max(
      0,
      ...widths.filter((_, index) => index !== widest && columns[index]?.canShrink === true),
    );
    const width = widths[widest] ?? 0;
    // Down to the next widest at most, so that two long columns share what is missing.
    widths[widest] = Math.max(
      SHRUNK_WIDTH_MIN,
      width - excess,
      Math.min(width - 1, Math.max(next, width - excess)),
    );
  }
}
