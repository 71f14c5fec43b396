import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import type { Clock } from "../../../base/clock.ts";

export interface ResponseHead {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

export interface ProviderExchangeOptions {
  readonly clock: Clock;
  /** Limit of the body; beyond it the exchange fails with the error of `tooLong`. */
  readonly bytesMax: number;
  readonly tooLong: () => unknown;
  /** Creates the error for the end of the connection, before or after the head of the answer. */
  readonly failureOf: (error: Error, hasHead: boolean) => unknown;
  /** Called once. */
  readonly onEnd: (isWhole: boolean) => void;
}

/** Bytes that are read ahead of the caller. */
const READ_AHEAD_BYTES = 65_536;

/**
 * A request and its answer on a connection. It reads only as fast as the caller pulls the body. It ends in one of three
 * ways: the answer is complete, `fail` was called, or the connection failed.
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
  /** The caller that waits for the head or the next piece. */
  #wake: (() => void) | undefined;

  constructor(options: ProviderExchangeOptions) {
    this.#options = options;
  }

  /** Rejects with the error of `tooLate` after the time limit, and with the error of the exchange. */
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

  /** Resolves to the next piece, or undefined at the end. Rejects like `head`; the limit applies to this call only. */
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
    // 102 and 103 are sent before the answer.
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

  /** Data that arrived before the connection failed is still returned. */
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
