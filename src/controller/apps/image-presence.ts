import type { Clock } from "../../base/clock.ts";
import type { ImageInfo, ImageRuntime } from "../runtime/port.ts";

/**
 * The time for which an answer of the engine about an image is valid, so that the rounds of one reconcile run share the
 * answer. The time is short because another process may prune images at any time, and an old version is stopped only if
 * the image of the new one is present.
 */
const VALID_MS = 2_000;
/** The maximum number of references and ids that are remembered. */
const IMAGES_MAX = 1_000;

/**
 * A short-lived cache of the images that the engine holds, which saves requests to the engine within a reconcile run.
 * If a container cannot be created because its image is missing, `markAbsent` corrects the cache.
 */
export class ImagePresence {
  readonly #runtime: ImageRuntime;
  readonly #clock: Clock;
  /** The time at which the engine last reported each image, in epoch milliseconds. */
  readonly #seenMs = new Map<string, number>();

  constructor(runtime: ImageRuntime, clock: Clock) {
    this.#runtime = runtime;
    this.#clock = clock;
  }

  /** Checks if the engine holds the image. `image` is a reference or an id. */
  async check(image: string, signal: AbortSignal): Promise<"present" | "absent"> {
    const askedMs = this.#clock.now();
    const ageMs = askedMs - (this.#seenMs.get(image) ?? Number.NEGATIVE_INFINITY);
    // If the clock was set back, the age of the last answer is negative, and the engine is asked again.
    if (ageMs >= 0 && ageMs < VALID_MS) return "present";
    this.#seenMs.delete(image);
    return (await this.inspect(image, signal)) ? "present" : "absent";
  }

  /** Inspects an image; see ImageRuntime.inspectImage. A check of the image soon afterwards uses the same answer. */
  async inspect(image: string, signal: AbortSignal): Promise<ImageInfo | undefined> {
    const askedMs = this.#clock.now();
    const info = await this.#runtime.inspectImage(image, signal);
    if (!info) return undefined;
    if (this.#seenMs.size >= IMAGES_MAX) this.#seenMs.clear();
    for (const name of [image, info.id]) this.#seenMs.set(name, askedMs);
    return info;
  }

  markAbsent(image: string): void {
    this.#seenMs.delete(image);
  }

  clear(): void {
    this.#seenMs.clear();
  }
}
