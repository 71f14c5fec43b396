import type { Calibration } from "./thread-governor.ts";

export interface CalibrateOptions {
  readonly cores: number;
  /** Measures the workload once with this number of threads, in milliseconds. */
  readonly measure: (kind: Workload, threads: number) => Promise<number>;
  /** A monotonic clock in milliseconds. */
  readonly now: () => number;
  readonly signal: AbortSignal;
}

export interface CalibrationResult {
  readonly calibration: Calibration;
  /** True if the measurements agreed, so that the result can be kept for the next load. */
  readonly steady: boolean;
}

type Workload = "decode" | "prefill";

/** No new round of measurements starts after this time; the first round is always completed. */
const CALIBRATION_MS = 600;
const ROUNDS_MAX = 6;
/** A number of threads that is slower by this factor is not tried again, and neither is any larger number. */
const TOO_SLOW_FACTOR = 2;
/**
 * More threads are used only if they are faster by this factor, because they occupy cores that other programs could
 * use.
 */
const WORTHWHILE_FACTOR = 1.07;
/** Two measurements agree if they differ by less than this factor. */
const STEADY_FACTOR = 1.3;
/**
 * If one token takes longer than this, measuring a prompt would take seconds; prompts then use all cores without a
 * measurement.
 */
const LARGE_MODEL_DECODE_MS = 30;

/**
 * Finds the number of threads with which a model computes fastest on this machine. Each round measures all
 * numbers of threads, so that other load affects all of them, and the best time counts, because noise only
 * makes a computation slower.
 */
export async function calibrate(options: CalibrateOptions): Promise<CalibrationResult> {
  const { cores, now } = options;
  if (cores === 1) {
    return {
      calibration: { decodeThreads: 1, prefillThreads: 1 },
      steady: true,
    };
  }
  // The first token reads the weights from disk, so its time is not counted.
  await options.measure("decode", 1);
  const deadline = now() + CALIBRATION_MS;
  const decode = await findBestThreads("decode", deadline, options);
  if (decode.bestMs > LARGE_MODEL_DECODE_MS) {
    const prefillThreads = decode.tooSlowFrom === undefined ? cores : decode.tooSlowFrom - 1;
    return {
      calibration: {
        decodeThreads: decode.threads,
        prefillThreads: Math.max(decode.threads, prefillThreads),
        decodeMs: decode.bestMs,
      },
      steady: decode.steady,
    };
  }
  const prefill = await findBestThreads(
    "prefill",
    Math.max(deadline, now() + CALIBRATION_MS / 2),
    options,
  );
  return {
    calibration: {
      decodeThreads: decode.threads,
      prefillThreads: prefill.threads,
      decodeMs: decode.bestMs,
    },
    steady: decode.steady && prefill.steady,
  };
}

interface ThreadBenchmark {
  readonly threads: number;
  readonly bestMs: number;
  readonly steady: boolean;
  /** The smallest number of threads that was much slower than fewer threads. */
  readonly tooSlowFrom: number | undefined;
}

async function findBestThreads(
  kind: Workload,
  deadline: number,
  { cores, measure, now, signal }: CalibrateOptions,
): Promise<ThreadBenchmark> {
  const candidates = [...new Set([1, Math.floor(cores / 2), cores - 1, cores])]
    .filter((threads) => threads >= 1)
    .toSorted((one, other) => one - other);
  const times = new Map<number, number[]>(candidates.map((threads) => [threads, []]));
  const best = (threads: number) => Math.min(...(times.get(threads) ?? []));
  let hopelessFrom: number | undefined;
  for (let round = 0; round < ROUNDS_MAX && (round === 0 || now() < deadline); round++) {
    for (const threads of candidates) {
      signal.throwIfAborted();
      if (hopelessFrom !== undefined && threads >= hopelessFrom) break;
      times.get(threads)?.push(await measure(kind, threads));
      const fastest = Math.min(...candidates.map(best));
      if (threads > 1 && best(threads) > fastest * TOO_SLOW_FACTOR) hopelessFrom = threads;
    }
  }
  const bestMs = Math.min(...candidates.map(best));
  const threads =
    candidates.find((candidate) => best(candidate) <= bestMs * WORTHWHILE_FACTOR) ?? 1;
  const [first = 0, second = Number.POSITIVE_INFINITY] = (times.get(threads) ?? []).toSorted(
    (one, other) => one - other,
  );
  return {
    threads,
    bestMs: best(threads),
    steady: second <= first * STEADY_FACTOR,
    tooSlowFrom: hopelessFrom,
  };
}
