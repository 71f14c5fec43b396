import type { Clock } from "../../base/clock.ts";
import type { ImageRuntime } from "../runtime/port.ts";

/**
 * How long an answer counts: the rounds of one run share it. An old version is stopped in the belief
 * that the image of the new one is there, and anybody may prune images at any time.
 */
const VALID_MS = 2_000;

/**
 * Which images the engine was just seen to hold. Only a hint, to spare the engine a question in each
 * round: a creation that finds the image gone says so, and `absent` is told.
 */
export class ImagePresence {
  readonly #runtime: ImageRuntime;
  readonly #clock: Clock;
  /** When each image was seen. */
  readonly #seenMs = new Map<string, number>();
  /** Versions whose image was pulled because their policy is Always. */
  readonly #refreshed = new Set<string>();

  constructor(runtime: ImageRuntime, clock: Clock) {
    this.#runtime = runtime;
    this.#clock = clock;
  }

  async check(image: string, signal: AbortSignal): Promise<"present" | "absent"> {
    const askedMs = this.#clock.now();
    const ageMs = askedMs - (this.#seenMs.get(image) ?? Number.NEGATIVE_INFINITY);
    // A clock that was set back makes nothing younger.
    if (ageMs >= 0 && ageMs < VALID_MS) return "present";
    this.#seenMs.delete(image);
    if (!(await this.#runtime.inspectImage(image, signal))) return "absent";
    this.#seenMs.set(image, askedMs);
    return "present";
  }

  markAbsent(image: string): void {
    this.#seenMs.delete(image);
  }

  isRefreshed(version: string): boolean {
    return this.#refreshed.has(version);
  }

  markRefreshed(version: string): void {
    this.#refreshed.add(version);
  }

  clear(): void {
    this.#seenMs.clear();
  }
}
