import type { ServerResponse } from "node:http";
import type { Clock } from "../../../base/clock.ts";

/** Beyond this, text is written without waiting for the turn's end: a whole chunk of the socket. */
const COALESCED_CHARACTERS_MAX = 16_384;

export interface SseLimits {
  /** A comment goes out when nothing else has for one to two of these. */
  readonly heartbeatMs: number;
  /** How long a reader may take nothing before its connection is ended. */
  readonly stalledMs: number;
}

/**
 * Server-sent events on the raw answer. What is written in one turn of the event loop goes out
 * together; whoever writes asks `isBehind` and waits, so that a slow reader costs no memory.
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

  /** `headers` beside those of the stream; sent at once with the first text. */
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

  /** Whole events or comments, each with its empty line. Nothing after `end`. */
  write(text: string): void {
    if (this.#isEnded) return;
    this.#hasWritten = true;
    this.#pending += text;
    if (this.#pending.length >= COALESCED_CHARACTERS_MAX) this.#flush();
    else this.#turn ??= setImmediate(this.#onTurn);
  }

  /** The reader has not taken what was written; `drained` tells when it has. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  /** Resolves when the reader is ready for more, or the signal has aborted; ends a reader that stays away. */
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
