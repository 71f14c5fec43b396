/** A queue of one job's messages with one asynchronous reader. */
export class AsyncQueue<T> {
  #items: T[] = [];
  #failure: { readonly error: unknown } | undefined;
  #wake: () => void = () => {};

  push(item: T): void {
    this.#items.push(item);
    this.#wake();
  }

  /** Makes `take` reject from now on, even if items are still queued. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }

  /** Resolves to the next item; rejects once the queue has failed. Only one caller may wait at a time. */
  async take(): Promise<T> {
    for (;;) {
      if (this.#failure) throw this.#failure.error;
      const item = this.#items.shift();
      if (item !== undefined) return item;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
