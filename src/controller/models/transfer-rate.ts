import type { Clock } from "../../base/clock.ts";
import type { DownloadProgress } from "./files/port.ts";

/** A rate over less would jump, over more would lag behind; in milliseconds. */
const WINDOW_MS = 5_000;

/** How fast bytes come, over the last seconds. */
export class TransferRate {
  readonly #clock: Clock;
  #step: DownloadProgress["step"] | undefined;
  #samples: { readonly at: number; readonly bytes: number }[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Bytes a second with this word of progress; null before there are two to compare. */
  update({ step, doneBytes }: DownloadProgress): number | null {
    const at = this.#clock.now();
    // Another step begins to count anew, and so does a file that is begun again.
    if (step !== this.#step || doneBytes < (this.#samples.at(-1)?.bytes ?? 0)) this.#samples = [];
    this.#step = step;
    this.#samples.push({ at, bytes: doneBytes });
    while (this.#samples.length > 2 && (this.#samples[1]?.at ?? at) <= at - WINDOW_MS)
      this.#samples.shift();
    const [oldest] = this.#samples;
    if (!oldest || oldest.at === at) return null;
    return Math.round(((doneBytes - oldest.bytes) * 1000) / (at - oldest.at));
  }
}
