import type { CoreLease } from "../../src/assistant/inference/inference-engine.ts";

/** Cores that somebody else wants when the test says so; tells whether they were given back. */
export class CountingCores implements CoreLease {
  holdCount = 0;
  isHeld = false;
  readonly #listeners = new Set<(contested: boolean) => void>();

  /** Somebody begins to wait for them, or nobody does any more. */
  contest(contested: boolean): void {
    for (const listener of this.#listeners) listener(contested);
  }

  async hold(): Promise<void> {
    this.holdCount += 1;
    this.isHeld = true;
  }

  release(): void {
    this.isHeld = false;
  }

  onContest(listener: (contested: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
