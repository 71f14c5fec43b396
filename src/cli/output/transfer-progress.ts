import { formatBytes } from "../../base/units.ts";
import { formatDurationMs } from "../format-time.ts";
import { COLUMNS_STANDARD } from "../io.ts";
import { displayWidth, toSingleLine, truncateToWidth } from "./display-width.ts";

/** The progress of a download or a verification. */
export interface TransferState {
  /** The name of the model. */
  readonly label: string;
  /** The text in place of the percentage while the total size is unknown, such as "asking the source ...". */
  readonly activity: string;
  readonly doneBytes: number;
  /** The total size; null if it is unknown. */
  readonly totalBytes: number | null;
  readonly bytesPerSecond: number | null;
}

const BAR_WIDTHS = [24, 12] as const;
/**
 * The interval between progress lines if the output is not a terminal. It is long, because no line overwrites an
 * earlier one.
 */
const PLAIN_MS = 5_000;

/** A part of a progress line, and the number of columns that is reserved for this part. */
interface Part {
  readonly text: string;
  readonly width: number;
}

/** The widths of `1023.9 MiB`, `1023.9 MiB/s` and `7h59m left`. */
const BYTES_WIDTH = 10;
const SPEED_WIDTH = 12;
const LEFT_WIDTH = 10;
const GAP = "  ";

/**
 * Formats a line such as `small [########----------------] 34 % 1.2 GiB of 3.5 GiB 45.3 MiB/s 52s left`, shortened if
 * needed. The reserved widths of the parts decide which parts are shown, so that the bar keeps its width while the
 * numbers change.
 */
export function formatTransferLine(transfer: TransferState, columns: number): string {
  const texts = transferTexts(transfer);
  const { fraction, total } = texts;
  const label = toPart(transfer.label);
  const percent = toPart(texts.percent);
  const amount = { text: texts.amount, width: BYTES_WIDTH + " of ".length + total.length };
  const speed = { text: texts.speed, width: SPEED_WIDTH };
  const left = { text: texts.left, width: LEFT_WIDTH };
  const bars =
    fraction === undefined ? [] : BAR_WIDTHS.map((width) => toPart(bar(fraction, width)));
  const small = bars.slice(-1);
  const layouts = [
    ...bars.map((drawn) => [label, drawn, percent, amount, speed, left]),
    ...small.map((drawn) => [label, drawn, percent, speed, left]),
    ...small.map((drawn) => [label, drawn, percent, left]),
    ...small.map((drawn) => [label, drawn, percent]),
    [label, percent, left],
    [label, percent],
  ];
  const fitting = layouts.find((parts) => getWidth(parts) < columns);
  return fitting
    ? joinParts(fitting)
    : truncateToWidth(joinParts([label, percent]), Math.max(1, columns - 1));
}

function toPart(text: string): Part {
  return { text, width: displayWidth(text) };
}

function getWidth(parts: readonly Part[]): number {
  return parts.reduce((sum, { width }) => sum + width, GAP.length * (parts.length - 1));
}

function joinParts(parts: readonly Part[]): string {
  return parts
    .map(({ text }) => text)
    .filter((text) => text !== "")
    .join(GAP);
}

/** Formats a line for output that is not a terminal: `small: 34 %, 1.2 GiB of 3.5 GiB, 45.3 MiB/s, 52s left`. */
export function formatPlainTransferLine(transfer: TransferState): string {
  const { percent, amount, speed, left } = transferTexts(transfer);
  return `${transfer.label}: ${[percent.trim(), amount, speed, left].filter((part) => part !== "").join(", ")}`;
}

function transferTexts({ activity, doneBytes, totalBytes, bytesPerSecond }: TransferState) {
  const fraction =
    totalBytes === null || totalBytes === 0 ? undefined : Math.min(1, doneBytes / totalBytes);
  const isMoving = fraction !== undefined || doneBytes > 0;
  const hasSpeed = bytesPerSecond !== null && bytesPerSecond > 0;
  const leftBytes = totalBytes === null ? 0 : totalBytes - doneBytes;
  const done = isMoving ? formatBytes(doneBytes) : "";
  return {
    fraction,
    total: totalBytes === null ? "" : formatBytes(totalBytes),
    percent:
      fraction === undefined ? activity : `${String(Math.floor(fraction * 100)).padStart(3)} %`,
    amount: totalBytes === null ? done : isMoving ? `${done} of ${formatBytes(totalBytes)}` : "",
    speed: hasSpeed ? `${formatBytes(Math.round(bytesPerSecond))}/s` : "",
    left:
      hasSpeed && leftBytes > 0
        ? `${formatDurationMs((leftBytes / bytesPerSecond) * 1000 + 999)} left`
        : "",
  };
}

function bar(fraction: number, width: number): string {
  const full = Math.round(fraction * width);
  return `[${"#".repeat(full)}${"-".repeat(width - full)}]`;
}

export interface TransferProgressOptions {
  readonly write: (text: string) => void;
  /** If true, one line is overwritten at each update. If false, each update is a line of its own. */
  readonly isTerminal: boolean;
  readonly columns: () => number | undefined;
  readonly nowMs: () => number;
  readonly dim: (text: string) => string;
}

/** Displays one transfer after another. The caller calls `end`, so that later output begins on a new line. */
export class TransferProgress {
  readonly #options: TransferProgressOptions;
  #isOpen = false;
  #last = "";
  #lastActivity = "";
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(options: TransferProgressOptions) {
    this.#options = options;
  }

  show(transfer: TransferState): void {
    const { isTerminal, columns, nowMs, write, dim } = this.#options;
    const safe = { ...transfer, activity: toSingleLine(transfer.activity) };
    if (!isTerminal) {
      const hasChangedActivity = safe.activity !== this.#lastActivity;
      if (!hasChangedActivity && nowMs() - this.#lastMs < PLAIN_MS) return;
      this.#lastActivity = safe.activity;
      this.#lastMs = nowMs();
      this.#printPlain(formatPlainTransferLine(safe));
      return;
    }
    const line = formatTransferLine(safe, columns() ?? COLUMNS_STANDARD);
    if (this.#isOpen && line === this.#last) return;
    write(`${this.#isOpen ? "\r\u001b[K" : ""}${dim(line)}`);
    this.#last = line;
    this.#isOpen = true;
  }

  /** Prints a line that stays, above the transfer. */
  printLine(text: string): void {
    const { write, dim } = this.#options;
    if (this.#isOpen) write("\r\u001b[K");
    this.#isOpen = false;
    write(`${dim(toSingleLine(text))}\n`);
  }

  /** Ends the line; with `shouldErase` it erases the line instead. */
  end(shouldErase = false): void {
    if (this.#isOpen) this.#options.write(shouldErase ? "\r\u001b[K" : "\n");
    this.#isOpen = false;
  }

  #printPlain(line: string): void {
    if (line === this.#last) return;
    this.#last = line;
    this.#options.write(`${line}\n`);
  }
}
