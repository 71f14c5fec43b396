import type { Cores, Priority } from "../engine.ts";

/** The model's part in the cores: asked for before each call that computes, given back when there is none. */
export class CoreShare {
  readonly #cores: Cores;

  constructor(cores: Cores) {
    this.#cores = cores;
  }

  /**
   * True: the caller may compute. While another model has the cores, `stillWants` is asked after each
   * `woken`; when it answers with another priority, or with none, the wait ends with false, and the
   * caller looks anew at what there is to do.
   */
  async hold(
    priority: Priority,
    woken: () => Promise<void>,
    stillWants: () => Promise<Priority | undefined>,
  ): Promise<boolean> {
    const ending = new AbortController();
    const asked = this.#ask(priority, ending.signal);
    for (;;) {
      const isHeld = await Promise.race([asked, woken().then(() => false)]);
      if (isHeld) return true;
      if ((await stillWants()) === priority) continue;
      ending.abort();
      await asked;
      return false;
    }
  }

  release(): void {
    this.#cores.release();
  }

  /** False: the wait was ended. */
  async #ask(priority: Priority, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#cores.hold(priority, signal);
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      throw error;
    }
  }
}
