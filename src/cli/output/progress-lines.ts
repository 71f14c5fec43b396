import { parseFormattedBytes } from "../../base/units.ts";

const BAR_WIDTH = 24;

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
export function formatProgressBar(fraction: number): string {
  const full = Math.round(fraction * BAR_WIDTH);
  const percent = String(Math.floor(fraction * 100)).padStart(3);
  return `[${"#".repeat(full)}${"-".repeat(BAR_WIDTH - full)}] ${percent} %`;
}

/**
 * Prints lines on a terminal. The next line overwrites one with progress; any other line stays. The caller calls
 * `end`, so that later output begins on a new line.
 */
export class ProgressLines {
  readonly #write: (text: string) => void;
  readonly #dim: (text: string) => string;
  #isOpen = false;

  constructor(write: (text: string) => void, dim: (text: string) => string) {
    this.#write = write;
    this.#dim = dim;
  }

  show(text: string): void {
    const fraction = parseProgress(text);
    const line = fraction === undefined ? `  ${text}` : `  ${formatProgressBar(fraction)}  ${text}`;
    // Return to the start of the line and erase it.
    this.#write(`${this.#isOpen ? "\r\u001b[K" : ""}${this.#dim(line)}`);
    this.#isOpen = fraction !== undefined;
    if (!this.#isOpen) this.#write("\n");
  }

  end(): void {
    if (this.#isOpen) this.#write("\n");
    this.#isOpen = false;
  }
}
