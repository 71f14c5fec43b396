/**
 * Parts that were started, ended in reverse order. (AsyncDisposableStack, which does the same, is
 * not in Node 22.) A part that fails to end does not keep the others from ending.
 */
export class Cleanup implements AsyncDisposable {
  #steps: (() => unknown)[] = [];

  /** Takes a part over and gives it back. */
  use<T extends AsyncDisposable>(part: T): T {
    this.#steps.push(() => part[Symbol.asyncDispose]());
    return part;
  }

  defer(step: () => unknown): void {
    this.#steps.push(step);
  }

  /** Everything was started: the caller ends it from now on. */
  move(): Cleanup {
    const moved = new Cleanup();
    moved.#steps = this.#steps;
    this.#steps = [];
    return moved;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const failures: unknown[] = [];
    for (const step of this.#steps.splice(0).toReversed()) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
