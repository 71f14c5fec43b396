import type { Clock } from "../../base/clock.ts";
import type { DownloadProgress } from "./files/port.ts";

/** Averaging window in milliseconds: a shorter one would fluctuate, a longer one would lag. */
const WINDOW_MS = 5_000;

/** The transfer rate over the last seconds. */
export class TransferRate {
  readonly #clock: Clock;
  #step: DownloadProgress["step"] | undefined;
  #samples: { readonly at: number; readonly bytes: number }[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns bytes per second after this progress; null until there are two samples. */
  update({ step, doneBytes }: DownloadProgress): number | null {
    const at = this.#clock.now();
    // The counter restarts with another step, and when a download starts again.
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
