import type { Dispatcher } from "undici";
import type { Clock } from "../../../base/clock.ts";
import { AssistantError } from "../../assistant-error.ts";
import {
  badResponseError,
  connectError,
  cutOffError,
  LostConnectionError,
  noResponseError,
  type ProviderEndpoint,
} from "./connection-errors.ts";
import type { ProviderLimits } from "./port.ts";
import type { ProviderConnection } from "./provider-connection.ts";
import { ProviderExchange, type ResponseHead } from "./provider-exchange.ts";

/** REFUSAL_BYTES_MAX and REFUSAL_MS_MAX limit the reading of the body of a provider's error response. */
const REFUSAL_BYTES_MAX = 65_536;
const REFUSAL_MS_MAX = 5_000;
/**
 * A request whose reused connection closes within this time after sending is sent again. After this time the server may
 * have read the request, so it is not sent again.
 */
const LOST_MS_MAX = 1_000;

export interface ProviderAttemptOptions {
  readonly named: ProviderEndpoint;
  readonly request: Dispatcher.DispatchOptions;
  readonly limits: ProviderLimits;
  readonly clock: Clock;
  /**
   * Called once when the attempt has ended. The connection can be reused only if the answer was complete (`isWhole`).
   */
  readonly onEnd: (isWhole: boolean) => void;
}

/**
 * One request on one connection. The attempt ends early when the caller's signal aborts, or when nothing arrives for
 * too long.
 */
export class ProviderAttempt {
  readonly #named: ProviderEndpoint;
  readonly #limits: ProviderLimits;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #exchange: ProviderExchange;
  readonly #start: () => void;

  constructor(
    connection: ProviderConnection,
    options: ProviderAttemptOptions,
    signal: AbortSignal,
  ) {
    const { named, limits, clock } = options;
    this.#named = named;
    this.#limits = limits;
    this.#clock = clock;
    this.#signal = signal;
    const sentMs = clock.now();
    const onAbort = () => this.end(signal.reason);
    this.#exchange = new ProviderExchange({
      clock,
      bytesMax: limits.bytesMax,
      tooLong: () => badResponseError(named, `the answer has more than ${limits.bytesMax} bytes`),
      failureOf: (error, hasHead) => {
        if (hasHead) return cutOffError(named, error);
        if (!connection.isConnected) return connectError(named, error);
        if (connection.isLost && clock.now() - sentMs <= LOST_MS_MAX)
          return new LostConnectionError();
        return noResponseError(named, error, connection.answerBytes);
      },
      onEnd: (isWhole) => {
        signal.removeEventListener("abort", onAbort);
        options.onEnd(isWhole);
      },
    });
    this.#start = () => {
      signal.addEventListener("abort", onAbort, { once: true });
      connection.send(options.request, this.#exchange);
    };
  }

  /** Sends the request. */
  start(): void {
    this.#start();
  }

  /**
   * Resolves to the head of the answer. Rejects with AssistantError, with LostConnectionError, or with the signal's
   * reason.
   */
  head(): Promise<ResponseHead> {
    return this.#exchange.head(this.#limits.headMs, () => this.#silenceError(this.#limits.headMs));
  }

  body(): AsyncIterable<Uint8Array> {
    // The iterator is not a generator, because a generator that is ended before its first step does not run, and so
    // could not free the connection.
    const iterator: AsyncIterator<Uint8Array> = {
      next: async () => {
        const value = await this.#next();
        return value === undefined ? { done: true, value } : { done: false, value };
      },
      return: async () => {
        this.end(new Error("the caller stopped reading this answer"));
        return { done: true, value: undefined };
      },
    };
    return { [Symbol.asyncIterator]: () => iterator };
  }

  /** Resolves to the body of a refusal, as far as it arrives within the limits. Rejects with the signal's reason. */
  async readRefusal(): Promise<string> {
    const stop = this.#clock.setTimer(REFUSAL_MS_MAX, () =>
      this.end(this.#silenceError(REFUSAL_MS_MAX)),
    );
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const piece of this.body()) {
        pieces.push(piece);
        bytes += piece.length;
        if (bytes > REFUSAL_BYTES_MAX) break;
      }
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof AssistantError && error.code === "shutting_down") throw error;
      // The status alone determines the error, so a body that cannot be read is ignored.
    } finally {
      stop();
    }
    return new TextDecoder().decode(Buffer.concat(pieces).subarray(0, REFUSAL_BYTES_MAX));
  }

  /**
   * Ends the attempt: rejects a pending read with `reason`, and releases the connection at once. Data that was received
   * but not read yet is dropped.
   */
  end(reason: unknown): void {
    this.#exchange.fail(reason);
  }

  async #next(): Promise<Uint8Array | undefined> {
    this.#signal.throwIfAborted();
    const { silentMs } = this.#limits;
    return await this.#exchange.next(silentMs, () => this.#silenceError(silentMs));
  }

  #silenceError(limitMs: number): AssistantError {
    return new AssistantError(
      "timeout",
      `the provider ${this.#named.providerId} has sent nothing for ${limitMs / 1000} s`,
    );
  }
}
