import type { Clock } from "../../base/clock.ts";
import type { LogLine } from "../runtime/port.ts";

/** The limit of buffered text for each stream, in characters. */
const BUFFERED_MAX = 1024 * 1024;
/**
 * The longest time by which a reader may be late. The engine keeps the last 30 MB of a container's log and drops
 * older lines without a notice, so a stream that waited for longer would lose lines without counting them.
 */
const LAG_MAX_MS = 10_000;

/** An entry that replaces lines that were skipped because the reader was too slow. */
export interface SkippedLines {
  readonly skipped: number;
}

/**
 * Yields the lines of a stream that may never end. While the reader is less than ten seconds late, the stream waits
 * for it. After that, lines are skipped and counted, and the count is yielded instead of them.
 */
export async function* followWithinBounds(
  lines: AsyncIterable<LogLine>,
  clock: Clock,
): AsyncGenerator<LogLine | SkippedLines> {
  const buffer = new LineBuffer(clock);
  void buffer.fill(lines);
  try {
    yield* buffer.drain();
  } finally {
    buffer.close();
  }
}

class LineBuffer {
  readonly #clock: Clock;
  #entries: (LogLine | SkippedLines)[] = [];
  #size = 0;
  #skipped = 0;
  #state: "open" | "ended" | "closed" = "open";
  #failure: { readonly error: unknown } | undefined;
  #notifyReader: () => void = () => {};
  #notifyWriter: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Reads the stream to its end. Never rejects: `drain` throws the error of the stream. */
  async fill(lines: AsyncIterable<LogLine>): Promise<void> {
    const sinceMs = this.#clock.now();
    try {
      for await (const line of lines) {
        const writtenMs = Math.max(sinceMs, Date.parse(line.time) || 0);
        await this.#waitForSpace(writtenMs + LAG_MAX_MS);
        if (this.#state === "closed") return;
        if (this.#size < BUFFERED_MAX) this.#push(line);
        else this.#skipped += 1;
      }
    } catch (error) {
      this.#failure = { error };
    }
    if (this.#state === "open") this.#state = "ended";
    this.#notifyReader();
  }

  async *drain(): AsyncGenerator<LogLine | SkippedLines> {
    for (;;) {
      const entries = this.#entries;
      this.#entries = [];
      for (const entry of entries) {
        if (!("skipped" in entry)) this.#size -= entry.message.length + 1;
        this.#notifyWriter();
        yield entry;
      }
      if (this.#entries.length > 0) continue;
      // Lines that were skipped after the last one in the buffer are reported immediately, because there may be no
      // further line.
      const skipped = this.#takeSkipped();
      if (skipped) yield skipped;
      else if (this.#failure) throw this.#failure.error;
      else if (this.#state !== "open") return;
      else await new Promise<void>((resolve) => (this.#notifyReader = resolve));
    }
  }

  /** Ends the reading of the stream at its next line. */
  close(): void {
    this.#state = "closed";
    this.#notifyWriter();
  }

  #push(line: LogLine): void {
    const skipped = this.#takeSkipped();
    if (skipped) this.#entries.push(skipped);
    this.#entries.push(line);
    this.#size += line.message.length + 1;
    this.#notifyReader();
  }

  #takeSkipped(): SkippedLines | undefined {
    const skipped = this.#skipped;
    this.#skipped = 0;
    return skipped > 0 ? { skipped } : undefined;
  }

  async #waitForSpace(untilMs: number): Promise<void> {
    while (this.#size >= BUFFERED_MAX && this.#state === "open") {
      const leftMs = untilMs - this.#clock.now();
      if (leftMs <= 0) return;
      await new Promise<void>((resolve) => {
        const cancel = this.#clock.setTimer(leftMs, resolve);
        this.#notifyWriter = () => {
          cancel();
          resolve();
        };
      });
    }
  }
}
