import type { Calibration } from "./thread-governor.ts";

export interface CalibrateOptions {
  readonly cores: number;
  /** How long one thing takes with so many threads, in milliseconds. */
  readonly measure: (kind: Workload, threads: number) => Promise<number>;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  readonly signal: AbortSignal;
}

export interface CalibrationResult {
  readonly calibration: Calibration;
  /** Measurements agreed with each other, so that the result is worth keeping for the next load. */
  readonly steady: boolean;
}

type Workload = "decode" | "prefill";

/** No new round is begun after this; a first round of each number of threads is always made. */
const CALIBRATION_MS = 600;
const ROUNDS_MAX = 6;
/** A number of threads that is so much slower than another is not tried again, nor are greater ones. */
const TOO_SLOW_FACTOR = 2;
/** More threads have to be worth it: each is a core that nobody else has meanwhile. */
const WORTHWHILE_FACTOR = 1.07;
/** Measurements of the winner that differ by less. */
const STEADY_FACTOR = 1.3;
/** From here on a prompt is bound by computing, and takes seconds to measure: every core helps. */
const LARGE_MODEL_DECODE_MS = 30;

/**
 * Finds with how many threads a model computes fastest on this machine. Numbers of threads take turns,
 * so that a load from elsewhere meets all of them, and each counts by its best time, since noise only
 * ever makes things slower.
 */
export async function calibrate(options: CalibrateOptions): Promise<CalibrationResult> {
  const { cores, now } = options;
  if (cores === 1) {
    return {
      calibration: { decodeThreads: 1, prefillThreads: 1 },
      steady: true,
    };
  }
  // Weights come from the disk with the first token; that belongs to no number of threads.
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
  /** Fewest threads that were much slower than fewer still. */
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
