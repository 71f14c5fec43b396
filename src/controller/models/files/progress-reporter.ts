import type { Clock } from "../../../base/clock.ts";
import type { DownloadProgress } from "./port.ts";

const REPORT_INTERVAL_MS = 100;

/** Tells how far something is, ten times a second while it changes, and once at the end. */
export class ProgressReporter implements Disposable {
  readonly #clock: Clock;
  readonly #getProgress: () => DownloadProgress;
  readonly #report: (progress: DownloadProgress) => void;
  #lastReported: DownloadProgress | undefined;
  #cancel: () => void = () => {};

  constructor(
    clock: Clock,
    look: () => DownloadProgress,
    tell: (progress: DownloadProgress) => void,
  ) {
    this.#clock = clock;
    this.#getProgress = look;
    this.#report = tell;
    this.#tick();
  }

  #tick(): void {
    this.#reportIfChanged();
    this.#cancel = this.#clock.setTimer(REPORT_INTERVAL_MS, () => this.#tick());
  }

  #reportIfChanged(): void {
    const now = this.#getProgress();
    const told = this.#lastReported;
    if (
      told?.step === now.step &&
      told.doneBytes === now.doneBytes &&
      told.totalBytes === now.totalBytes
    )
      return;
    this.#lastReported = now;
    this.#report(now);
  }

  [Symbol.dispose](): void {
    this.#cancel();
    this.#reportIfChanged();
  }
}
