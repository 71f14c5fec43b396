import type { Logger } from "../../base/logger.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { OverlayUi } from "./ui/port.ts";

/**
 * The frontend's window comes up by itself where a person has to decide something and cannot see it, and goes
 * again when that is done. Nothing waits for any of this, and a frontend that fails costs nobody anything.
 */
export class FrontendWindow {
  readonly #ui: OverlayUi;
  readonly #tasks: TaskGroup;
  readonly #logger: Logger;
  readonly #waiting = new Set<number>();
  /** The frontend that was brought up for this alone. */
  #summoned: string | undefined;
  /** One after the other: what is hidden was shown before. */
  #queue: Promise<void> = Promise.resolve();

  constructor(options: {
    readonly ui: OverlayUi;
    readonly tasks: TaskGroup;
    readonly logger: Logger;
  }) {
    this.#ui = options.ui;
    this.#tasks = options.tasks;
    this.#logger = options.logger;
  }

  /** A query asks a person. */
  requireVisible(queryId: number): void {
    this.#waiting.add(queryId);
    this.#enqueue((signal) => this.#show(queryId, signal));
  }

  releaseVisible(queryId: number): void {
    if (!this.#waiting.delete(queryId)) return;
    this.#enqueue((signal) => this.#hide(signal));
  }

  /** Somebody else has shown or hidden it: from now on it is not for the companion to hide. */
  relinquish(): void {
    this.#summoned = undefined;
  }

  async #show(queryId: number, signal: AbortSignal): Promise<void> {
    if (!this.#waiting.has(queryId)) return;
    const frontend = await this.#ui.connection(signal);
    if (frontend === undefined || (await this.#ui.isVisible(signal))) return;
    if (!this.#waiting.has(queryId)) return;
    this.#summoned = frontend;
    await this.#ui.summon("", { queryId }, signal);
  }

  async #hide(signal: AbortSignal): Promise<void> {
    const summoned = this.#summoned;
    if (this.#waiting.size > 0 || summoned === undefined) return;
    this.#summoned = undefined;
    if ((await this.#ui.connection(signal)) === summoned) await this.#ui.hide(signal);
  }

  #enqueue(step: (signal: AbortSignal) => Promise<void>): void {
    this.#tasks.run("the frontend's window", (signal) => {
      this.#queue = this.#queue
        .then(() => step(signal))
        .catch((err: unknown) => {
          if (!signal.aborted) this.#logger.debug({ err }, "the frontend did not do its part");
        });
      return this.#queue;
    });
  }
}
