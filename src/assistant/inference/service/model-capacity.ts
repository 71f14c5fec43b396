import { AssistantError } from "../../assistant-error.ts";

/** A rough estimate of the time until a slot becomes free, which is not known in advance. */
const RETRY_SECONDS = 2;

/** Limits the requests per model, running and waiting together; further requests are refused immediately. */
export class ModelCapacity {
  readonly #queueMax: number;
  readonly #inFlight = new Map<string, number>();

  constructor(options: {
    /** The maximum number of waiting requests per model. */
    readonly queueMax: number;
  }) {
    this.#queueMax = options.queueMax;
  }

  /**
   * Occupies a slot or a place in the queue, and returns a function that releases it and is safe to call twice. Throws
   * `queue_full` if the queue is full. `slots` is the number of requests that the model answers concurrently.
   */
  acquire(model: string, slots: number): () => void {
    const before = this.#inFlight.get(model) ?? 0;
    if (before >= slots + this.#queueMax)
      throw new AssistantError(
        "queue_full",
        `model ${model} has ${before} requests running or waiting, which is its limit. Try again in a moment`,
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
