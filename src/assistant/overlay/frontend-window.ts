import type { Logger } from "../../base/logger.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { OverlayUi } from "./ui/port.ts";

/**
 * Shows the frontend's window when the user must decide something and cannot see the window, and hides it afterwards.
 * No query waits for the window. An error of the frontend is only logged.
 */
export class FrontendWindow {
  readonly #ui: OverlayUi;
  readonly #tasks: TaskGroup;
  readonly #logger: Logger;
  readonly #waiting = new Set<number>();
  /** The frontend whose window the companion has shown for a question and must hide again. */
  #summoned: string | undefined;
  /**
   * Calls that show or hide the window run one after the other, so that the window is never hidden before it is shown.
   */
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

  /** Shows the window if necessary. Called when a query asks the user a question. */
  requireVisible(queryId: number): void {
    this.#waiting.add(queryId);
    this.#enqueue((signal) => this.#show(queryId, signal));
  }

  releaseVisible(queryId: number): void {
    if (!this.#waiting.delete(queryId)) return;
    this.#enqueue((signal) => this.#hide(signal));
  }

  /** Leaves the window as it is from now on, because another program has shown or hidden it. */
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
          if (!signal.aborted)
            this.#logger.debug({ err }, "the frontend failed to show or hide its window");
        });
      return this.#queue;
    });
  }
}
