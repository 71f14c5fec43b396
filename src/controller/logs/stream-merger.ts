/**
 * Values of several streams in the order in which they come; streams can be added at any time. One
 * value of each stream waits to be taken at the most: a slow reader slows the streams down. A stream
 * that fails makes the next `take` throw.
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

  /** Streams that have not ended, or of which a value waits. */
  get isBusy(): boolean {
    return this.#streams > 0;
  }

  /** What waits now, if nothing waits an empty list. Throws what a stream has thrown. */
  take(): T[] {
    if (this.#failures.length > 0) throw this.#failures[0];
    return this.#pending.splice(0).map(({ value, taken }) => {
      taken();
      return value;
    });
  }

  /** Resolves with the next value, end or failure of a stream, or call of `wake`; at once where a value waits. */
  async waitForChange(): Promise<void> {
    if (this.#pending.length > 0 || this.#failures.length > 0) return;
    await new Promise<void>((resolve) => (this.#notify = resolve));
  }

  notifyChange(): void {
    this.#notify();
  }

  /** Lets go of every stream as soon as it comes to its next value. */
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
