/** A signal that wakes one waiter; any number of notifications before the wake-up count as one. */
export class Wakeup {
  #wake: () => void = () => {};

  /** Resolves at the next `notify`. Only one caller may wait: an earlier promise never resolves. */
  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  notify(): void {
    this.#wake();
  }
}
