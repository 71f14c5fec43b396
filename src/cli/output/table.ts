import { displayWidth, toSingleLine, truncateToWidth } from "./display-width.ts";

export interface Column<T> {
  readonly header: string;
  readonly value: (row: T) => string;
  /** Colours a cell, depending on its row. */
  readonly colour?: (text: string, row: T) => string;
  /** If true, the column may shrink on a narrow terminal, where the widest column shrinks first. */
  readonly canShrink?: boolean;
  /**
   * If set, the column may be left out when shrinking is not enough. The column with the lowest number is left out
   * first.
   */
  readonly dropOrder?: number | undefined;
  readonly isRightAligned?: boolean;
  /** True if the value changes by itself, as an age does. --watch ignores such a value. */
  readonly isVolatile?: boolean;
  /** The value that --watch compares, for a cell that also shows volatile values. */
  readonly comparedValue?: (row: T) => string;
}

export interface TableOptions {
  /** The width of the terminal in columns; undefined if there is no limit. */
  readonly width?: number | undefined;
  /** The minimum widths of the columns; updated in place, so that later tables align with this one. */
  readonly columnWidthsMin?: number[];
}

const GAP = "   ";
/** The smallest width of a shrunk column. */
const SHRUNK_WIDTH_MIN = 12;

/** Formats a table in the style of kubectl: upper-case headers, three spaces between columns, no lines. */
export function formatTable<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  options: TableOptions = {},
): string {
  const { width: available, columnWidthsMin } = options;
  const cells = rows.map((row) => columns.map((column) => toSingleLine(column.value(row)) || "-"));
  const widths = columns.map((column, index) =>
    cells.reduce(
      (widest, row) => Math.max(widest, displayWidth(row[index] ?? "")),
      Math.max(displayWidth(column.header), columnWidthsMin?.[index] ?? 0),
    ),
  );
  if (available !== undefined) {
    for (const index of chooseDropped(widths, columns, available)) widths[index] = 0;
    shrinkColumns(widths, columns, available);
  }
  columnWidthsMin?.splice(0, widths.length, ...widths);

  const line = (texts: readonly string[], row: T | undefined) =>
    texts
      .flatMap((text, index) => {
        const column = columns[index];
        const width = widths[index] ?? 0;
        if (width === 0) return [];
        const cut = truncateToWidth(text, width);
        const padding = " ".repeat(Math.max(0, width - displayWidth(cut)));
        const coloured =
          row !== undefined && column?.colour !== undefined ? column.colour(cut, row) : cut;
        return [column?.isRightAligned === true ? padding + coloured : coloured + padding];
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

/** Returns the columns to leave out, so that the others fit when they are shrunk as far as possible. */
function chooseDropped<T>(
  widths: readonly number[],
  columns: readonly Column<T>[],
  available: number,
): readonly number[] {
  const dropped: number[] = [];
  const least = widths.map((width, index) =>
    columns[index]?.canShrink === true ? Math.min(width, SHRUNK_WIDTH_MIN) : width,
  );
  const candidates = [...columns.entries()]
    .filter(([, { dropOrder }]) => dropOrder !== undefined)
    .toSorted(([, a], [, b]) => (a.dropOrder ?? 0) - (b.dropOrder ?? 0));
  for (const [index] of candidates) {
    if (getTotal(least) <= available) break;
    least[index] = 0;
    dropped.push(index);
  }
  return dropped;
}

/** Returns the width of a table line, without columns that are left out (width 0). */
function getTotal(widths: readonly number[]): number {
  const shown = widths.filter((width) => width > 0);
  return shown.reduce((sum, width) => sum + width, GAP.length * (shown.length - 1));
}

function shrinkColumns<T>(
  widths: number[],
  columns: readonly Column<T>[],
  available: number,
): void {
  for (;;) {
    const excess = getTotal(widths) - available;
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
    // Shrinks the widest column no further than to the width of the second widest, so that two long columns shrink
    // evenly.
    widths[widest] = Math.max(
      SHRUNK_WIDTH_MIN,
      width - excess,
      Math.min(width - 1, Math.max(next, width - excess)),
    );
  }
}
