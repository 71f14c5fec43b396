/** Wakes one that waits, however often and by whomever it is rung. */
export class Wakeup {
  #wake: () => void = () => {};

  /** Resolves at the first ring from now on. One waits at a time: whoever asked before is forgotten. */
  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  notify(): void {
    this.#wake();
  }
}
