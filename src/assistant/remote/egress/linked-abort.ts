/**
 * The reason for aborting a finished request. It is shared, because an abort without a reason creates an error with a
 * stack each time.
 */
export const ENDED = new DOMException("the request has ended", "AbortError");

/**
 * An AbortController for a part of a longer operation. It aborts when its parent aborts, or when `abort` is called on
 * it alone.
 */
export class LinkedAbort implements Disposable {
  readonly #controller = new AbortController();
  readonly #parent: AbortSignal;
  readonly #follow = () => this.#controller.abort(this.#parent.reason);

  constructor(parent: AbortSignal) {
    this.#parent = parent;
    if (parent.aborted) this.#follow();
    else parent.addEventListener("abort", this.#follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: unknown = ENDED): void {
    this.#controller.abort(reason);
  }

  [Symbol.dispose](): void {
    this.#parent.removeEventListener("abort", this.#follow);
    this.abort();
  }
}
