/** Why what is over is aborted. One for all: an abort without a reason makes one with a stack each time. */
export const ENDED = new DOMException("it is over", "AbortError");

/** An abort of its own for a part of something longer: it follows the parent's, and can be had alone. */
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
