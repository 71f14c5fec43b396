import type { CoreLease, RequestPriority } from "../inference-engine.ts";

/**
 * Holds the cores for one model: they are requested before each runner call that computes, and released when the model
 * is idle.
 */
export class CoreShare {
  readonly #cores: CoreLease;

  constructor(cores: CoreLease) {
    this.#cores = cores;
  }

  /**
   * Requests the machine's cores for `priority` and resolves to true when the caller holds them. While another model
   * holds the cores, each `waitForWake` is followed by a check of `getPriority`. If the priority of the caller's work
   * has changed, the request is withdrawn and the method resolves to false.
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
