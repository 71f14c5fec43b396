import type { CoreLease } from "../../src/assistant/inference/inference-engine.ts";

/**
 * A fake lease of cores, which records whether the cores were released. The test determines whether another model waits
 * for the cores.
 */
export class CountingCores implements CoreLease {
  holdCount = 0;
  isHeld = false;
  readonly #listeners = new Set<(contested: boolean) => void>();

  /** Sets whether another model waits for these cores. */
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
