/** What was found best at load. */
export interface Calibration {
  /** Threads for one token of each sequence, and for a chunk of a prompt. */
  readonly decodeThreads: number;
  readonly prefillThreads: number;
  /** Of one token, in milliseconds, on a machine as idle as it was; undefined: not measured. */
  readonly decodeMs?: number | undefined;
}

export interface ThreadGovernorOptions {
  /** No more threads than these, whatever is asked. */
  readonly threadsMax: number;
  /** Takes effect with the next thing that is computed. */
  readonly setThreads: (threads: number) => void;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  /** CPU time of this process so far, of all threads together, in milliseconds. */
  readonly cpuMs: () => number;
  readonly onChange: (change: { readonly threads: number; readonly stepMs: number }) => void;
}

type Workload = "decode" | "prefill" | "embed";

/**
 * A thread that has to share its core makes the others wait for it spinning: steps become 70 to 600
 * times slower. Nothing else makes a step so much slower and burns CPU time all along.
 */
const SLOWER_FACTOR = 20;
/** Below this, what is measured is the event loop and not the model. */
const SLOW_MS = 20;
/** Less of it: the process was not spinning but waiting, for the disk or for its turn. */
const SPINNING_SHARE = 0.5;
/** One such step is bad luck. */
const SLOW_STEPS = 3;
/** After so long, whoever took the core may have gone. */
const RETRY_MS = 60_000;

/** Decides with how many threads the next thing is computed. */
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

  /** For measuring: exactly so many, until it is taken back with undefined. */
  force(threads: number | undefined): void {
    this.#forced = threads;
    if (threads !== undefined) this.prepare("decode");
  }

  /** Called before something is computed. */
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

  /** Called after a step: drops a thread where they wait for each other. */
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
