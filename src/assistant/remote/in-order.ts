/** Runs one piece of work after the other, in the order in which they were asked for. */
export class InOrder {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work, work);
    this.#last = next.catch(() => {});
    return next;
  }

  /** When everything that was asked for so far is over. */
  async settled(): Promise<void> {
    await this.#last;
  }
}
