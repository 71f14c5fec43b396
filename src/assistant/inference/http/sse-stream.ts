import type { ServerResponse } from "node:http";
import type { Clock } from "../../../base/clock.ts";

/** If more text than this is buffered, the text is written at once instead of at the end of the event loop turn. */
const COALESCED_CHARACTERS_MAX = 16_384;

export interface SseLimits {
  /** The heartbeat interval. A comment is sent if nothing else was sent for one to two of these intervals. */
  readonly heartbeatMs: number;
  /** The longest time that a reader may stop reading before its connection is closed. */
  readonly stalledMs: number;
}

/**
 * Server-sent events on the raw response. Text that is written in one turn of the event loop is sent together. Writers
 * check `isBehind` and await `drained`, so that a slow reader costs no memory.
 */
export class SseStream {
  readonly #raw: ServerResponse;
  readonly #clock: Clock;
  readonly #limits: SseLimits;
  readonly #signal: AbortSignal;
  readonly #onReady = () => this.#resume();
  readonly #onTurn = () => {
    this.#turn = undefined;
    this.#flush();
  };
  #pending = "";
  #turn: NodeJS.Immediate | undefined;
  #isBehind = false;
  #isEnded = false;
  #hasWritten = true;
  #wake: (() => void) | undefined;
  #stopHeartbeat: () => void;

  /** `headers` are sent in addition to the headers of every stream, together with the first text. */
  constructor(
    raw: ServerResponse,
    headers: Readonly<Record<string, number | string | string[] | undefined>>,
    options: { readonly clock: Clock; readonly limits: SseLimits; readonly signal: AbortSignal },
  ) {
    this.#raw = raw;
    this.#clock = options.clock;
    this.#limits = options.limits;
    this.#signal = options.signal;
    const given = Object.entries(headers).filter(([, value]) => value !== undefined);
    raw.writeHead(200, {
      ...Object.fromEntries(given),
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    raw.on("drain", this.#onReady);
    this.#signal.addEventListener("abort", this.#onReady);
    this.#stopHeartbeat = this.#scheduleHeartbeat();
  }

  /** Writes whole events or comments, each of which ends with an empty line. Does nothing after `end`. */
  write(text: string): void {
    if (this.#isEnded) return;
    this.#hasWritten = true;
    this.#pending += text;
    if (this.#pending.length >= COALESCED_CHARACTERS_MAX) this.#flush();
    else this.#turn ??= setImmediate(this.#onTurn);
  }

  /** True if the reader has not yet received all written text. Writers should then await `drained`. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  /**
   * Resolves when the reader is ready for more or the signal aborts; closes the connection of a reader that stops
   * reading.
   */
  async drained(): Promise<void> {
    if (!this.#isBehind || this.#signal.aborted) return;
    const stop = this.#clock.setTimer(this.#limits.stalledMs, () => this.#raw.destroy());
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    stop();
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#stopHeartbeat();
    this.#signal.removeEventListener("abort", this.#onReady);
    this.#raw.off("drain", this.#onReady);
    if (this.#turn) clearImmediate(this.#turn);
    this.#raw.end(this.#pending);
    this.#pending = "";
  }

  #flush(): void {
    if (this.#pending === "") return;
    const text = this.#pending;
    this.#pending = "";
    this.#isBehind = !this.#raw.write(text);
  }

  #resume(): void {
    this.#isBehind = false;
    this.#wake?.();
    this.#wake = undefined;
  }

  #scheduleHeartbeat(): () => void {
    return this.#clock.setTimer(this.#limits.heartbeatMs, () => {
      if (!this.#hasWritten) this.write(": waiting\n\n");
      this.#hasWritten = false;
      this.#stopHeartbeat = this.#scheduleHeartbeat();
    });
  }
}
