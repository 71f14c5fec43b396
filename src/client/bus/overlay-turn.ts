import type { FinishedStatus } from "./overlay-wire.ts";

/**
 * An event of an overlay query. `meta`, `spec` and `detail` are parsed JSON without validation, or null if the signal
 * contained invalid JSON. `finished` is the last event.
 */
export type OverlayEvent =
  | { readonly type: "started"; readonly meta: unknown }
  | { readonly type: "token"; readonly text: string }
  | { readonly type: "confirmation"; readonly spec: unknown }
  | { readonly type: "finished"; readonly status: FinishedStatus; readonly detail: unknown };

/**
 * The events of one query. The query's id becomes known with the answer of the method Ask. Events that arrive earlier
 * are kept until then.
 */
export class OverlayTurn implements Disposable {
  #queryId: bigint | undefined;
  readonly #earlyEvents: { readonly queryId: bigint; readonly event: OverlayEvent }[] = [];
  readonly #events: OverlayEvent[] = [];
  readonly #disposers: (() => void)[] = [];
  #failure: unknown;
  #wake: (() => void) | undefined;
  #onArrival: (() => void) | undefined;

  get queryId(): bigint {
    if (this.#queryId === undefined) throw new Error("the query has no id yet");
    return this.#queryId;
  }

  begin(queryId: bigint): void {
    this.#queryId = queryId;
    for (const early of this.#earlyEvents.splice(0)) this.add(early.queryId, early.event);
  }

  add(queryId: bigint, event: OverlayEvent): void {
    if (this.#queryId === undefined) {
      this.#earlyEvents.push({ queryId, event });
      return;
    }
    if (queryId !== this.#queryId) return;
    this.#events.push(event);
    this.#notify();
  }

  /** Ends the turn with an error: `next` rejects with it after the last event. */
  fail(error: unknown): void {
    this.#failure ??= error;
    this.#notify();
  }

  /** Returns the next event. Rejects with the signal's reason, or with an error if the companion has exited. */
  async next(signal: AbortSignal): Promise<OverlayEvent> {
    const wake = () => this.#wake?.();
    signal.addEventListener("abort", wake);
    try {
      for (;;) {
        signal.throwIfAborted();
        const event = this.#events.shift();
        if (event !== undefined) return event;
        if (this.#failure !== undefined) throw this.#failure;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      signal.removeEventListener("abort", wake);
      this.#wake = undefined;
    }
  }

  /** Calls the listener when an event has arrived that was not read yet. The returned function removes the listener. */
  onArrival(listener: () => void): () => void {
    this.#onArrival = listener;
    if (this.#events.length > 0 || this.#failure !== undefined) listener();
    return () => {
      this.#onArrival = undefined;
    };
  }

  onDispose(stop: () => void): void {
    this.#disposers.push(stop);
  }

  [Symbol.dispose](): void {
    for (const stop of this.#disposers.splice(0)) stop();
  }

  #notify(): void {
    this.#onArrival?.();
    this.#wake?.();
  }
}
