import type { CoreLease, RequestPriority } from "../inference-engine.ts";

/** The model's part in the cores: asked for before each call that computes, given back when there is none. */
export class CoreShare {
  readonly #cores: CoreLease;

  constructor(cores: CoreLease) {
    this.#cores = cores;
  }

  /**
   * True: the caller may compute. While another model has the cores, `stillWants` is asked after each
   * `woken`; when it answers with another priority, or with none, the wait ends with false, and the
   * caller looks anew at what there is to do.
   */
  async hold(
    priority: RequestPriority,
    waitForWake: () => Promise<void>,
    getPriority: () => Promise<RequestPriority | undefined>,
  ): Promise<boolean> {
    const ending = new AbortController();
    const asked = this.#request(priority, ending.signal);
    for (;;) {
      const isHeld = await Promise.race([asked, waitForWake().then(() => false)]);
      if (isHeld) return true;
      if ((await getPriority()) === priority) continue;
      ending.abort();
      await asked;
      return false;
    }
  }

  release(): void {
    this.#cores.release();
  }

  /** False: the wait was ended. */
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
