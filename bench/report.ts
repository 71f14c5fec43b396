/**
 * One line of the report: the measured value of Berth, the value of the baseline without Berth (`floor`), and the ratio
 * that Berth should reach (`aim`).
 */
export interface Figure {
  readonly name: string;
  readonly value: string;
  readonly floor: string;
  readonly ratio: string;
  readonly aim: string;
  /** True if the figure reaches its aim; undefined if there is no aim. */
  readonly isMet: boolean | undefined;
  /** Details that are printed below the table. */
  readonly notes?: readonly string[];
}

export function printReport(figures: readonly Figure[]): void {
  const rows = [
    ["bench", "berth", "floor", "ratio", "aim", ""],
    ...figures.map((figure) => [
      figure.name,
      figure.value,
      figure.floor,
      figure.ratio,
      figure.aim,
      figure.isMet === undefined ? "" : figure.isMet ? "met" : "MISSED",
    ]),
  ];
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  for (const row of rows)
    console.log(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    );
  for (const { name, notes } of figures)
    if (notes) console.log([`\n${name}:`, ...notes].join("\n  "));
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => percentile(values, 0.5);
export const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`;
