import type { Cores } from "../../src/assistant/inference/engine.ts";

/** Cores that nobody else wants; tells whether they were given back. */
export class CountingCores implements Cores {
  asked = 0;
  held = false;

  async hold(): Promise<void> {
    this.asked += 1;
    this.held = true;
  }

  release(): void {
    this.held = false;
  }

  onContest(): () => void {
    return () => {};
  }
}
