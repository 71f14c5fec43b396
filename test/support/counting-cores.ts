import type { Cores } from "../../src/assistant/inference/engine.ts";

/** Cores that somebody else wants when the test says so; tells whether they were given back. */
export class CountingCores implements Cores {
  asked = 0;
  held = false;
  readonly #listeners = new Set<(contested: boolean) => void>();

  /** Somebody begins to wait for them, or nobody does any more. */
  contest(contested: boolean): void {
    for (const listener of this.#listeners) listener(contested);
  }

  async hold(): Promise<void> {
    this.asked += 1;
    this.held = true;
  }

  release(): void {
    this.held = false;
  }

  onContest(listener: (contested: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
