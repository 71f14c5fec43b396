/** The numbers of threads with which a model computes fastest, measured while it was loaded. */
export interface Calibration {
  /** The number of threads for a decoding step. `prefillThreads` is the number for a chunk of a prompt. */
  readonly decodeThreads: number;
  readonly prefillThreads: number;
  /** The duration of decoding one token in milliseconds; undefined if it was not measured. */
  readonly decodeMs?: number | undefined;
}

export interface ThreadGovernorOptions {
  /** The largest number of threads for any workload. */
  readonly threadsMax: number;
  /** Sets the number of threads of the next computation. */
  readonly setThreads: (threads: number) => void;
  /** Returns the time of a monotonic clock in milliseconds. */
  readonly now: () => number;
  /** The CPU time of all threads of this process in milliseconds. */
  readonly cpuMs: () => number;
  readonly onChange: (change: { readonly threads: number; readonly stepMs: number }) => void;
}

type Workload = "decode" | "prefill" | "embed";

/**
 * A decoding step counts as slow if it takes this many times as long as usual. If one thread shares its core with
 * another process, the other threads spin while they wait for it, and steps become 70 to 600 times slower. Nothing else
 * makes a step so slow while it uses CPU time throughout.
 */
const SLOWER_FACTOR = 20;
/**
 * The minimum duration of a slow decoding step in milliseconds. The duration of shorter steps depends more on the event
 * loop than on the model.
 */
const SLOW_MS = 20;
/**
 * The minimum share of CPU time in a computation whose threads spin. With a smaller share, the threads waited for the
 * disk or for the scheduler.
 */
const SPINNING_SHARE = 0.5;
/** A thread is dropped after this many slow decoding steps in a row; a single slow one may be chance. */
const SLOW_STEPS = 3;
/**
 * The time in milliseconds after which a reduced number of threads is raised to the maximum again. By then, the process
 * that shared a core with a thread may have ended.
 */
const RETRY_MS = 60_000;

/** Chooses the number of threads for each computation. */
export class ThreadGovernor {
  readonly threadsMax: number;
  readonly #options: ThreadGovernorOptions;
  #calibration: Calibration;
  #forced: number | undefined;
  #threadLimit: number;
  #limitedAt = 0;
  #slowSteps = 0;
  #cpuMsAtStart = 0;
  #appliedThreads: number | undefined;

  constructor(options: ThreadGovernorOptions) {
    const { threadsMax } = options;
    this.#options = options;
    this.threadsMax = threadsMax;
    this.#threadLimit = threadsMax;
    this.#calibration = {
      decodeThreads: threadsMax,
      prefillThreads: threadsMax,
      decodeMs: undefined,
    };
  }

  adopt(calibration: Calibration): void {
    this.#calibration = calibration;
  }

  getThreads(work: Workload): number {
    const { decodeThreads, prefillThreads } = this.#calibration;
    const wanted = { decode: decodeThreads, prefill: prefillThreads, embed: this.threadsMax };
    return Math.max(1, Math.min(this.#forced ?? wanted[work], this.#threadLimit));
  }

  /** Sets an exact number of threads for a measurement; undefined ends the use of that number. */
  force(threads: number | undefined): void {
    this.#forced = threads;
    if (threads !== undefined) this.prepare("decode");
  }

  /** Sets the number of threads of the next computation. Callers call this method before each computation. */
  prepare(work: Workload): void {
    if (this.#threadLimit < this.threadsMax && this.#options.now() - this.#limitedAt >= RETRY_MS) {
      this.#threadLimit = this.threadsMax;
    }
    const threads = this.getThreads(work);
    this.#cpuMsAtStart = this.#options.cpuMs();
    if (threads === this.#appliedThreads) return;
    this.#appliedThreads = threads;
    this.#options.setThreads(threads);
  }

  /**
   * Evaluates the duration of a decoding step; must be called after each step. Drops a thread after several slow steps
   * in a row, because the threads then seem to wait for each other.
   */
  observe(stepMs: number, streams: number): void {
    const threads = this.getThreads("decode");
    const { decodeMs } = this.#calibration;
    if (decodeMs === undefined || threads === 1) return;
    const slow = stepMs > Math.max(SLOW_MS, decodeMs * Math.max(1, streams) * SLOWER_FACTOR);
    const spinning = this.#options.cpuMs() - this.#cpuMsAtStart >= stepMs * SPINNING_SHARE;
    if (!slow || !spinning) {
      this.#slowSteps = 0;
      return;
    }
    if (++this.#slowSteps < SLOW_STEPS) return;
    this.#slowSteps = 0;
    this.#threadLimit = threads - 1;
    this.#limitedAt = this.#options.now();
    this.#options.onChange({ threads: this.#threadLimit, stepMs });
  }
}
