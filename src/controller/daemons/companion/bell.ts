/** Wakes one that waits, however often and by whomever it is rung. */
export class Bell {
  #wake: () => void = () => {};

  /** Resolves at the first ring from now on. One waits at a time: whoever asked before is forgotten. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  ring(): void {
    this.#wake();
  }
}
