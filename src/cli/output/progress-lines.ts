import { parseFormattedBytes } from "../../base/units.ts";
import { COLUMNS_STANDARD } from "../io.ts";
import { displayWidth, truncateToWidth } from "./display-width.ts";

/**
 * The width of a progress bar in columns. On a terminal with fewer columns than NARROW_COLUMNS, the width is
 * NARROW_BAR_WIDTH.
 */
const BAR_WIDTH = 24;
const NARROW_BAR_WIDTH = 12;
const NARROW_COLUMNS = 60;
/** The width of `(1023.9 MiB of 1023.9 MiB)`. */
const AMOUNT_WIDTH = 26;
/** A line with fewer columns than this for its text does not show the downloaded amount. */
const TEXT_WIDTH_MIN = 8;

/**
 * Parses the progress at the end of a message such as `pulling nginx:1.29 (34 MiB of 120 MiB)`. Returns a
 * fraction from 0 to 1; undefined if the message contains none.
 */
export function parseProgress(message: string): number | undefined {
  const match = /\(([^()]+) of ([^()]+)\)$/.exec(message);
  const done = parseFormattedBytes(match?.[1] ?? "");
  const total = parseFormattedBytes(match?.[2] ?? "");
  if (done === undefined || total === undefined || total === 0) return undefined;
  return Math.min(1, done / total);
}

/** Formats a bar such as `[########----------------] 34 %`. */
export function formatProgressBar(fraction: number, width = BAR_WIDTH): string {
  const full = Math.round(fraction * width);
  const percent = String(Math.floor(fraction * 100)).padStart(3);
  return `[${"#".repeat(full)}${"-".repeat(width - full)}] ${percent} %`;
}

/**
 * Formats a progress bar and a text that ends with an amount in brackets, in fewer than `columns` columns, because a
 * wrapped line could not be overwritten. Only the text before the amount is truncated.
 */
function formatProgressLine(text: string, fraction: number, columns: number): string {
  const bar = formatProgressBar(fraction, columns < NARROW_COLUMNS ? NARROW_BAR_WIDTH : BAR_WIDTH);
  const start = text.lastIndexOf(" (");
  const room = columns - 1 - displayWidth(`  ${bar}  `);
  const hasAmount = room >= TEXT_WIDTH_MIN + 1 + AMOUNT_WIDTH;
  const head = truncateToWidth(
    text.slice(0, start),
    Math.max(1, hasAmount ? room - 1 - AMOUNT_WIDTH : room),
  );
  const line = `  ${bar}  ${head}${hasAmount ? text.slice(start) : ""}`;
  return truncateToWidth(line, Math.max(1, columns - 1));
}

export interface ProgressLinesOptions {
  readonly write: (text: string) => void;
  readonly dim: (text: string) => string;
  /** The width of the terminal; undefined if it is unknown. */
  readonly columns: () => number | undefined;
}

/**
 * Prints lines on a terminal. The next line overwrites a line that shows progress; any other line stays. The caller
 * calls `end`, so that later output begins on a new line.
 */
export class ProgressLines {
  readonly #options: ProgressLinesOptions;
  #isOpen = false;

  constructor(options: ProgressLinesOptions) {
    this.#options = options;
  }

  show(text: string): void {
    const { write, dim, columns } = this.#options;
    const fraction = parseProgress(text);
    const line =
      fraction === undefined
        ? `  ${text}`
        : formatProgressLine(text, fraction, columns() ?? COLUMNS_STANDARD);
    // This sequence returns to the start of the line and erases the line.
    write(`${this.#isOpen ? "\r\u001b[K" : ""}${dim(line)}`);
    this.#isOpen = fraction !== undefined;
    if (!this.#isOpen) write("\n");
  }

  end(): void {
    if (this.#isOpen) this.#options.write("\n");
    this.#isOpen = false;
  }
}
