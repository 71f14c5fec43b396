import type { Dispatcher } from "undici";
import type { Clock } from "../../../base/clock.ts";
import { AssistantError } from "../../errors.ts";
import type { Connection } from "./connection.ts";
import {
  badResponse,
  cutOff,
  LostConnection,
  type Named,
  noAnswer,
  notConnected,
} from "./connection-failures.ts";
import { Exchange, type Head } from "./exchange.ts";
import type { ProviderLimits } from "./port.ts";

/** Of an answer that tells what went wrong. */
const WORDS_BYTES_MAX = 65_536;
const WORDS_MS_MAX = 5_000;
/** A connection that is lost later than this may well have been read from: the request is not sent twice. */
const LOST_MS_MAX = 1_000;

export interface AttemptOptions {
  readonly named: Named;
  readonly request: Dispatcher.DispatchOptions;
  readonly limits: ProviderLimits;
  readonly clock: Clock;
  /** Called once: whole, the connection is free for the next request; else it is of no more use. */
  readonly onEnd: (isWhole: boolean) => void;
}

/** One request on one connection. Ends it when its caller's signal aborts, and when nothing comes for too long. */
export class Attempt {
  readonly #named: Named;
  readonly #limits: ProviderLimits;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #exchange: Exchange;
  readonly #start: () => void;

  constructor(connection: Connection, options: AttemptOptions, signal: AbortSignal) {
    const { named, limits, clock } = options;
    this.#named = named;
    this.#limits = limits;
    this.#clock = clock;
    this.#signal = signal;
    const sentMs = clock.now();
    const onAbort = () => this.end(signal.reason);
    this.#exchange = new Exchange({
      clock,
      bytesMax: limits.bytesMax,
      tooLong: () => badResponse(named, `more than ${limits.bytesMax} bytes`),
      failureOf: (error, hasHead) => {
        if (hasHead) return cutOff(named, error);
        if (!connection.isMade) return notConnected(named, error);
        if (connection.isLost && clock.now() - sentMs <= LOST_MS_MAX) return new LostConnection();
        return noAnswer(named, error, connection.answerBytes);
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

  /** Rejects with AssistantError, LostConnection, and the signal's reason. */
  head(): Promise<Head> {
    return this.#exchange.head(this.#limits.headMs, () => this.#silent(this.#limits.headMs));
  }

  body(): AsyncIterable<Uint8Array> {
    // No generator: one that is left before its first step would run nothing, and so free nothing.
    const iterator: AsyncIterator<Uint8Array> = {
      next: async () => {
        const value = await this.#next();
        return value === undefined ? { done: true, value } : { done: false, value };
      },
      return: async () => {
        this.end(new Error("nobody reads this answer any more"));
        return { done: true, value: undefined };
      },
    };
    return { [Symbol.asyncIterator]: () => iterator };
  }

  /** The body of a refusal as far as it comes, soon and in reason. Rejects with the signal's reason. */
  async words(): Promise<string> {
    const stop = this.#clock.setTimer(WORDS_MS_MAX, () => this.end(this.#silent(WORDS_MS_MAX)));
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const piece of this.body()) {
        pieces.push(piece);
        bytes += piece.length;
        if (bytes > WORDS_BYTES_MAX) break;
      }
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof AssistantError && error.code === "shutting_down") throw error;
      // The status says enough.
    } finally {
      stop();
    }
    return new TextDecoder().decode(Buffer.concat(pieces).subarray(0, WORDS_BYTES_MAX));
  }

  /** With this for whoever waits; frees the connection at once. After the end of the answer, nothing more of it is given out. */
  end(reason: unknown): void {
    this.#exchange.fail(reason);
  }

  async #next(): Promise<Uint8Array | undefined> {
    this.#signal.throwIfAborted();
    const { silentMs } = this.#limits;
    return await this.#exchange.next(silentMs, () => this.#silent(silentMs));
  }

  #silent(limitMs: number): AssistantError {
    return new AssistantError(
      "timeout",
      `the provider ${this.#named.providerId} has said nothing for ${limitMs / 1000} s`,
    );
  }
}
