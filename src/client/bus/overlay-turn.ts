import type { FinishedStatus } from "./overlay-wire.ts";

/** What a query tells, in its order; JSON as it came, null for what is none. `finished` is the last one. */
export type OverlayEvent =
  | { readonly type: "started"; readonly meta: unknown }
  | { readonly type: "token"; readonly text: string }
  | { readonly type: "confirmation"; readonly spec: unknown }
  | { readonly type: "finished"; readonly status: FinishedStatus; readonly detail: unknown };

/** One query, from its subscription on. Signals may be read before the answer to Ask is: they are kept until then. */
export class OverlayTurn implements Disposable {
  #queryId: bigint | undefined;
  readonly #earlyEvents: { readonly queryId: bigint; readonly event: OverlayEvent }[] = [];
  readonly #events: OverlayEvent[] = [];
  readonly #disposers: (() => void)[] = [];
  #failure: unknown;
  #wake: (() => void) | undefined;
  #onArrival: (() => void) | undefined;

  get queryId(): bigint {
    if (this.#queryId === undefined) throw new Error("nobody has asked yet");
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

  /** Nothing will come any more. */
  fail(error: unknown): void {
    this.#failure ??= error;
    this.#notify();
  }

  /** The next event. Rejects with the signal's reason, and where the companion has gone. */
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

  /** Calls back once something has come that nobody has read. The function that it returns ends that. */
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
