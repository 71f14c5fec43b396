import type { Clock } from "../../../base/clock.ts";
import type { DownloadProgress } from "./port.ts";

const EVERY_MS = 100;

/** Tells how far something is, ten times a second while it changes, and once at the end. */
export class ProgressMeter implements Disposable {
  readonly #clock: Clock;
  readonly #look: () => DownloadProgress;
  readonly #tell: (progress: DownloadProgress) => void;
  #told: DownloadProgress | undefined;
  #cancel: () => void = () => {};

  constructor(
    clock: Clock,
    look: () => DownloadProgress,
    tell: (progress: DownloadProgress) => void,
  ) {
    this.#clock = clock;
    this.#look = look;
    this.#tell = tell;
    this.#tick();
  }

  #tick(): void {
    this.#tellNow();
    this.#cancel = this.#clock.setTimer(EVERY_MS, () => this.#tick());
  }

  #tellNow(): void {
    const now = this.#look();
    const told = this.#told;
    if (
      told?.step === now.step &&
      told.doneBytes === now.doneBytes &&
      told.totalBytes === now.totalBytes
    )
      return;
    this.#told = now;
    this.#tell(now);
  }

  [Symbol.dispose](): void {
    this.#cancel();
    this.#tellNow();
  }
}
