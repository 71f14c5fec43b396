/**
 * Disposes of the resources that were added to it, in reverse order. (Node 22 lacks AsyncDisposableStack, which does
 * the same.) If disposing of one fails, the others are disposed of all the same.
 */
export class Cleanup implements AsyncDisposable {
  #steps: (() => unknown)[] = [];

  /** Adds a resource that this Cleanup will dispose of, and returns the resource. */
  use<T extends AsyncDisposable>(part: T): T {
    this.#steps.push(() => part[Symbol.asyncDispose]());
    return part;
  }

  defer(step: () => unknown): void {
    this.#steps.push(step);
  }

  /** Moves all resources to a new Cleanup, whose owner disposes of them from now on. */
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
