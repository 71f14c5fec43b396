/** What one job is told, in order, until it fails or its caller leaves. */
export class AsyncQueue<T> {
  #items: T[] = [];
  #failure: { readonly error: unknown } | undefined;
  #wake: () => void = () => {};

  push(item: T): void {
    this.#items.push(item);
    this.#wake();
  }

  /** What was told before is not taken any more: nobody waits for it. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }

  /** The next item; rejects once it has failed. One caller at a time. */
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
