import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import type { Clock } from "../base/clock.ts";
import { BerthError } from "../base/errors.ts";

/**
 * The maximum amount of data that a client has not read yet, about twenty thousand changes. The server closes the
 * connection of a client above this limit.
 */
const BUFFER_BYTES_MAX = 4 * 1024 * 1024;
/**
 * The interval of heartbeats. Proxies close connections that are silent for about a minute; the SSE specification
 * recommends 15 s.
 */
const HEARTBEAT_MS = 15_000;
/** The maximum number of open streams, each of which costs a socket and a buffer. */
const STREAMS_MAX = 512;

export interface ServerSentEvent {
  readonly id?: number;
  readonly event?: string;
  /** The data of the event, as JSON in one line. */
  readonly data: string;
}

/** Limits the number of open streams of a server. */
export class StreamSlots {
  #open = 0;

  get open(): number {
    return this.#open;
  }

  /**
   * Acquires a slot, and returns a function that releases it. Throws BerthError `too_many_requests` if all slots
   * are taken.
   */
  acquire(): () => void {
    if (this.#open >= STREAMS_MAX) {
      throw new BerthError("too_many_requests", `there are ${STREAMS_MAX} open streams already`, {
        hint: "close one first",
        details: { retryAfterSeconds: 5 },
      });
    }
    this.#open += 1;
    let isTaken = true;
    return () => {
      if (isTaken) this.#open -= 1;
      isTaken = false;
    };
  }
}

/**
 * A response with server-sent events and heartbeats. A reader that falls too far behind is disconnected, so that the
 * buffer stays bounded; the reader can resume with Last-Event-ID.
 */
export class EventStream {
  readonly #readable: Readable;
  readonly #stopHeartbeat: () => void;
  readonly #abort = new AbortController();
  #onDrain: (() => void) | undefined;

  constructor(clock: Clock, closing: AbortSignal, release: () => void) {
    this.#readable = new Readable({
      read: () => {
        this.#onDrain?.();
        this.#onDrain = undefined;
      },
    });
    const onClosing = () => this.end();
    this.#readable.once("close", () => {
      this.#abort.abort();
      this.#stopHeartbeat();
      closing.removeEventListener("abort", onClosing);
      this.#onDrain?.();
      release();
    });
    this.#stopHeartbeat = repeat(clock, HEARTBEAT_MS, () => this.#push(":\n\n"));
    closing.addEventListener("abort", onClosing, { once: true });
    if (closing.aborted) this.end();
    // The first data is sent immediately, so that the client knows that it is connected.
    else this.#push("retry: 2000\n\n");
  }

  /** A signal that is aborted when the client or the server ends the stream. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  send(event: ServerSentEvent): void {
    this.#push(formatEvent(event));
  }

  /** Sends an event, and resolves when the reader can receive more. */
  async sendWithBackpressure(event: ServerSentEvent): Promise<void> {
    if (this.#push(formatEvent(event)) || this.#readable.destroyed) return;
    await new Promise<void>((resolve) => {
      this.#onDrain = resolve;
    });
  }

  end(): void {
    if (!this.#readable.readableEnded && !this.#readable.destroyed) this.#readable.push(null);
    this.#abort.abort();
  }

  /** Sends this stream as the response. */
  open(reply: FastifyReply): FastifyReply {
    reply.raw.once("close", () => this.#readable.destroy());
    return reply
      .header("content-type", "text/event-stream; charset=utf-8")
      .header("cache-control", "no-store")
      .header("x-accel-buffering", "no")
      .send(this.#readable);
  }

  #push(text: string): boolean {
    if (this.#readable.destroyed || this.#abort.signal.aborted) return false;
    const isReady = this.#readable.push(text);
    if (this.#readable.readableLength > BUFFER_BYTES_MAX) this.#readable.destroy();
    return isReady;
  }
}

function formatEvent({ id, event, data }: ServerSentEvent): string {
  const head = `${id === undefined ? "" : `id: ${id}\n`}${event === undefined ? "" : `event: ${event}\n`}`;
  return `${head}data: ${data}\n\n`;
}

function repeat(clock: Clock, periodMs: number, callback: () => void): () => void {
  let cancel = clock.setTimer(periodMs, tick);
  let isStopped = false;
  function tick() {
    if (isStopped) return;
    callback();
    cancel = clock.setTimer(periodMs, tick);
  }
  return () => {
    isStopped = true;
    cancel();
  };
}
