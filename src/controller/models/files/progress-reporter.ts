import type { Clock } from "../../../base/clock.ts";
import type { DownloadProgress } from "./port.ts";

const REPORT_INTERVAL_MS = 100;

/** Reports progress ten times a second while it changes, and once at the end. */
export class ProgressReporter implements Disposable {
  readonly #clock: Clock;
  readonly #getProgress: () => DownloadProgress;
  readonly #report: (progress: DownloadProgress) => void;
  #lastReported: DownloadProgress | undefined;
  #cancel: () => void = () => {};

  constructor(
    clock: Clock,
    getProgress: () => DownloadProgress,
    report: (progress: DownloadProgress) => void,
  ) {
    this.#clock = clock;
    this.#getProgress = getProgress;
    this.#report = report;
    this.#tick();
  }

  #tick(): void {
    this.#reportIfChanged();
    this.#cancel = this.#clock.setTimer(REPORT_INTERVAL_MS, () => this.#tick());
  }

  #reportIfChanged(): void {
    const now = this.#getProgress();
    const last = this.#lastReported;
    if (
      last?.step === now.step &&
      last.doneBytes === now.doneBytes &&
      last.totalBytes === now.totalBytes
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
