import { uptime } from "node:os";
import type { ProcessFiles } from "./process-files.ts";

/** Length of one tick of the start times in /proc: USER_HZ, which does not depend on the kernel's own tick rate. */
const TICK_MS = 10;
/** Tolerance in comparisons of two times, each of which is rounded down to a tick. */
const SLACK_MS = 50;
/**
 * The start times in /proc are trusted only if the start time of this process is at most this much later than
 * os.uptime() and process.uptime() imply. Otherwise /proc uses another clock.
 */
const AGREEMENT_MS = 2_000;

/**
 * Records, for each connection, the latest time at which it can have been made. A child process can keep a connection
 * open after the process that made it has ended, and the process id that the bus reports can then be reused. The
 * process that reuses the id is recognised, because it started after the connection was made.
 */
export class ConnectionTimes {
  readonly #nowMs: () => number;
  readonly #seenMs = new Map<string, number>();
  #watchedFromMs: number | undefined;

  /** `nowMs` returns milliseconds since boot. */
  constructor(nowMs: () => number = () => uptime() * 1_000) {
    this.#nowMs = nowMs;
  }

  /** Starts to record every connection and disconnection on the bus. */
  startRecording(): void {
    this.#watchedFromMs = this.#nowMs();
  }

  recordConnect(connection: string): void {
    this.#seenMs.set(connection, this.#nowMs());
  }

  recordDisconnect(connection: string): void {
    this.#seenMs.delete(connection);
  }

  /** Returns true if a process with this start time is too young to have made the connection. */
  async isTooYoung(connection: string, startTime: string, files: ProcessFiles): Promise<boolean> {
    const byMs = this.#seenMs.get(connection) ?? this.#watchedFromMs;
    if (byMs === undefined || Number(startTime) * TICK_MS <= byMs + SLACK_MS) return false;
    return await this.#isClockConsistent(files);
  }

  /** Returns false in a container whose reported uptime differs from the clock that the kernel uses for start times. */
  async #isClockConsistent(files: ProcessFiles): Promise<boolean> {
    const own = await files.startTime(process.pid);
    if (own === undefined) return true;
    return Number(own) * TICK_MS <= this.#nowMs() - process.uptime() * 1_000 + AGREEMENT_MS;
  }
}
