/**
 * Merges the values of several streams in the order in which they arrive. Streams can be added at any time. At most
 * one value of each stream is buffered, so that a slow reader slows the streams down. If a stream fails, the next
 * call of `take` throws its error.
 */
export class StreamMerger<T> {
  readonly #pending: { readonly value: T; readonly taken: () => void }[] = [];
  #streams = 0;
  #failures: unknown[] = [];
  #isClosed = false;
  #notify: () => void = () => {};

  add(stream: AsyncIterable<T>): void {
    this.#streams += 1;
    void this.#pump(stream);
  }

  /** True while a stream has not ended, or while a value is buffered. */
  get isBusy(): boolean {
    return this.#streams > 0;
  }

  /** Returns all buffered values, which may be none. Throws the error of a stream that has failed. */
  take(): T[] {
    if (this.#failures.length > 0) throw this.#failures[0];
    return this.#pending.splice(0).map(({ value, taken }) => {
      taken();
      return value;
    });
  }

  /**
   * Resolves at the next value, end or failure of a stream, or when `wake` is called. Resolves at once if a value is
   * buffered.
   */
  async waitForChange(): Promise<void> {
    if (this.#pending.length > 0 || this.#failures.length > 0) return;
    await new Promise<void>((resolve) => (this.#notify = resolve));
  }

  notifyChange(): void {
    this.#notify();
  }

  /**
   * Discards the buffered values, and ends the reading of each stream at its next value, because a pending read of an
   * AsyncIterable cannot be interrupted.
   */
  close(): void {
    this.#isClosed = true;
    for (const { taken } of this.#pending.splice(0)) taken();
  }

  async #pump(stream: AsyncIterable<T>): Promise<void> {
    try {
      for await (const value of stream) {
        if (this.#isClosed) return;
        await new Promise<void>((taken) => {
          this.#pending.push({ value, taken });
          this.#notify();
        });
      }
    } catch (error) {
      if (!this.#isClosed) this.#failures.push(error);
    } finally {
      this.#streams -= 1;
      this.#notify();
    }
  }
}
