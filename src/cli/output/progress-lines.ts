import { parseFormattedBytes } from "../../base/units.ts";

const BAR_WIDTH = 24;

/**
 * How far a message says that something is, from 0 to 1, where it ends as the server's messages of
 * pulls do: `pulling nginx:1.29 (34 MiB of 120 MiB)`. Undefined where it says nothing of the kind.
 */
export function parseProgress(message: string): number | undefined {
  const match = /\(([^()]+) of ([^()]+)\)$/.exec(message);
  const done = parseFormattedBytes(match?.[1] ?? "");
  const total = parseFormattedBytes(match?.[2] ?? "");
  if (done === undefined || total === undefined || total === 0) return undefined;
  return Math.min(1, done / total);
}

/** `[########----------------]  34 %` */
export function formatProgressBar(fraction: number): string {
  const full = Math.round(fraction * BAR_WIDTH);
  const percent = String(Math.floor(fraction * 100)).padStart(3);
  return `[${"#".repeat(full)}${"-".repeat(BAR_WIDTH - full)}] ${percent} %`;
}

/**
 * Lines of a terminal: a line with progress is painted over by the next one, any other stays. The
 * caller ends it, so that what comes afterwards begins a line of its own.
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
    // Back to the beginning of the line, and away with what stands there.
    this.#write(`${this.#isOpen ? "\r\u001b[K" : ""}${this.#dim(line)}`);
    this.#isOpen = fraction !== undefined;
    if (!this.#isOpen) this.#write("\n");
  }

  end(): void {
    if (this.#isOpen) this.#write("\n");
    this.#isOpen = false;
  }
}
