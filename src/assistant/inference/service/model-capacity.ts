import { AssistantError } from "../../assistant-error.ts";

/** Roughly how long one place takes to become free; nobody knows before. */
const RETRY_SECONDS = 2;

/** How many requests a model may have at a time, those that wait included: the rest is refused at once. */
export class ModelCapacity {
  readonly #queueMax: number;
  readonly #inFlight = new Map<string, number>();

  constructor(options: {
    /** Requests that wait, for each model. */
    readonly queueMax: number;
  }) {
    this.#queueMax = options.queueMax;
  }

  /**
   * Returns what ends the request's stay, which is safe to call twice. Throws `queue_full`. `places`: how
   * many requests the model answers side by side.
   */
  acquire(model: string, slots: number): () => void {
    const before = this.#inFlight.get(model) ?? 0;
    if (before >= slots + this.#queueMax)
      throw new AssistantError(
        "queue_full",
        `model ${model} has ${before} requests under way or waiting, which is all it takes. Try again in a moment`,
        { retryAfterSeconds: RETRY_SECONDS },
      );
    this.#inFlight.set(model, before + 1);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      const left = (this.#inFlight.get(model) ?? 1) - 1;
      if (left === 0) this.#inFlight.delete(model);
      else this.#inFlight.set(model, left);
    };
  }

  get total(): number {
    return [...this.#inFlight.values()].reduce((sum, count) => sum + count, 0);
  }
}
