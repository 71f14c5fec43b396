import type { CoreLease, RequestPriority } from "../inference-engine.ts";

/**
 * Requests the machine's cores for one model before each runner call that computes, and releases them when the model is
 * idle.
 */
export class CoreShare {
  readonly #cores: CoreLease;

  constructor(cores: CoreLease) {
    this.#cores = cores;
  }

  /**
   * Requests the machine's cores with `priority`, and resolves to true when the caller holds them. If the priority of
   * the caller's work changes before that, withdraws the request and resolves to false. `getPriority` is called
   * whenever `waitForWake` resolves.
   */
  async hold(
    priority: RequestPriority,
    waitForWake: () => Promise<void>,
    getPriority: () => Promise<RequestPriority | undefined>,
  ): Promise<boolean> {
    const ending = new AbortController();
    const requested = this.#request(priority, ending.signal);
    for (;;) {
      const isHeld = await Promise.race([requested, waitForWake().then(() => false)]);
      if (isHeld) return true;
      if ((await getPriority()) === priority) continue;
      ending.abort();
      await requested;
      return false;
    }
  }

  release(): void {
    this.#cores.release();
  }

  /** Requests the cores. Resolves to true when the model has them, or to false if the signal aborts before that. */
  async #request(priority: RequestPriority, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#cores.hold(priority, signal);
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      throw error;
    }
  }
}
