import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import type { Clock } from "../../../base/clock.ts";

export interface ResponseHead {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

export interface ProviderExchangeOptions {
  readonly clock: Clock;
  /** The largest size of the body. If the body is larger, the exchange fails with the error of `tooLong`. */
  readonly bytesMax: number;
  readonly tooLong: () => unknown;
  /** Creates the error for a connection that ended before (`hasHead` is false) or after the head of the answer. */
  readonly failureOf: (error: Error, hasHead: boolean) => unknown;
  /** Called once when the exchange has ended. `isWhole` is true if the whole answer was received. */
  readonly onEnd: (isWhole: boolean) => void;
}

/** The maximum number of bytes that are received before the caller pulls them. */
const READ_AHEAD_BYTES = 65_536;

/**
 * A request and its answer on a connection. The answer is read only as fast as the caller pulls the body. The exchange
 * ends in one of three ways: the answer is complete, `fail` was called, or the connection failed.
 */
export class ProviderExchange implements Dispatcher.DispatchHandler {
  readonly #options: ProviderExchangeOptions;
  readonly #pieces: Buffer[] = [];
  #controller: Dispatcher.DispatchController | undefined;
  #head: ResponseHead | undefined;
  #bytes = 0;
  #bytesWaiting = 0;
  #state: "open" | "whole" | "failed" = "open";
  #failure: unknown;
  /** Wakes the caller that waits for the head or for the next piece. */
  #wake: (() => void) | undefined;

  constructor(options: ProviderExchangeOptions) {
    this.#options = options;
  }

  /**
   * Resolves to the head of the answer. Rejects with the error that `tooLate` creates if the head has not arrived after
   * `limitMs`, and with the error of this exchange if the exchange has failed.
   */
  async head(limitMs: number, tooLate: () => unknown): Promise<ResponseHead> {
    const stop = this.#options.clock.setTimer(limitMs, () => this.fail(tooLate()));
    try {
      while (this.#head === undefined) {
        if (this.#state === "failed") throw this.#failure;
        await this.#waitForChange();
      }
      return this.#head;
    } finally {
      stop();
    }
  }

  /**
   * Resolves to the next piece of the body, or to undefined at its end. Rejects with the error that `tooLate` creates
   * if no piece has arrived after `limitMs`, and with the error of this exchange if the exchange has failed.
   */
  async next(limitMs: number, tooLate: () => unknown): Promise<Buffer | undefined> {
    if (this.#pieces.length === 0 && this.#state === "open") {
      const stop = this.#options.clock.setTimer(limitMs, () => this.fail(tooLate()));
      try {
        while (this.#pieces.length === 0 && this.#state === "open") await this.#waitForChange();
      } finally {
        stop();
      }
    }
    const piece = this.#pieces.shift();
    if (piece === undefined) {
      if (this.#state === "failed") throw this.#failure;
      return undefined;
    }
    this.#bytesWaiting -= piece.length;
    if (this.#bytesWaiting < READ_AHEAD_BYTES) this.#controller?.resume();
    return piece;
  }

  /** Ends the exchange with this error and drops unread data. */
  fail(reason: unknown): void {
    this.#pieces.length = 0;
    if (this.#state === "whole") this.#failure = reason;
    else this.#end("failed", reason);
    this.#state = "failed";
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
  }

  onResponseStart(_: unknown, status: number, headers: IncomingHttpHeaders): void {
    // Informational responses such as 102 and 103 come before the answer and are ignored.
    if (status < 200) return;
    this.#head = { status, headers };
    this.#notify();
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Buffer): void {
    if (this.#state !== "open") return;
    this.#bytes += piece.length;
    if (this.#bytes > this.#options.bytesMax) {
      this.fail(this.#options.tooLong());
      return;
    }
    this.#pieces.push(piece);
    this.#bytesWaiting += piece.length;
    if (this.#bytesWaiting >= READ_AHEAD_BYTES) controller.pause();
    this.#notify();
  }

  onResponseEnd(): void {
    this.#end("whole", undefined);
  }

  /** Handles the failure of the connection. Data that arrived earlier is still returned to the caller. */
  onResponseError(_: unknown, error: Error): void {
    if (this.#state !== "open") return;
    this.#end("failed", this.#options.failureOf(error, this.#head !== undefined));
  }

  #end(state: "whole" | "failed", failure: unknown): void {
    if (this.#state !== "open") return;
    this.#state = state;
    this.#failure = failure;
    this.#options.onEnd(state === "whole");
    this.#notify();
  }

  #waitForChange(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #notify(): void {
    this.#wake?.();
    this.#wake = undefined;
  }
}
