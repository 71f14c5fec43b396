import { uptime } from "node:os";
import type { ProcessFiles } from "./process-files.ts";

/** USER_HZ, in which the kernel tells start times to programs whatever its own ticks are. */
const TICK_MS = 10;
/** Both times are cut to a tick. */
const SLACK_MS = 50;
/** Beyond this, the clock of the machine is not the one that start times are of. */
const AGREEMENT_MS = 2_000;

/**
 * By when each connection was on the bus at the latest. A child can hold a connection whose process has ended,
 * until the id that the bus tells is another process's: that one started after the connection was made.
 */
export class ConnectionTimes {
  readonly #nowMs: () => number;
  readonly #seenMs = new Map<string, number>();
  #watchedFromMs: number | undefined;

  /** Milliseconds since the boot. */
  constructor(nowMs: () => number = () => uptime() * 1_000) {
    this.#nowMs = nowMs;
  }

  /** From now on `came` and `left` are told of everybody. */
  startRecording(): void {
    this.#watchedFromMs = this.#nowMs();
  }

  recordConnect(connection: string): void {
    this.#seenMs.set(connection, this.#nowMs());
  }

  recordDisconnect(connection: string): void {
    this.#seenMs.delete(connection);
  }

  /** Whether a process that started then (`startTime`) is too young to have made this connection. */
  async isTooYoung(connection: string, startTime: string, files: ProcessFiles): Promise<boolean> {
    const byMs = this.#seenMs.get(connection) ?? this.#watchedFromMs;
    if (byMs === undefined || Number(startTime) * TICK_MS <= byMs + SLACK_MS) return false;
    return await this.#isClockConsistent(files);
  }

  /** Not in a container that makes up how long the machine is up. */
  async #isClockConsistent(files: ProcessFiles): Promise<boolean> {
    const own = await files.startTime(process.pid);
    if (own === undefined) return true;
    return Number(own) * TICK_MS <= this.#nowMs() - process.uptime() * 1_000 + AGREEMENT_MS;
  }
}
