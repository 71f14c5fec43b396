import type { Clock } from "../base/clock.ts";
import { BerthError, getErrorMessage, isAbortError } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { TaskGroup } from "../base/task-group.ts";
import type { Kind } from "../resources/kinds.ts";
import type { ControllerMetrics } from "./metrics/controller-metrics.ts";
import { BACKOFF_MAX_MS, reconcileBackoffMs } from "./reconcile-backoff.ts";
import { RetryLaterError } from "./retry-later-error.ts";
import { type ReconcilePriority, WorkQueue } from "./workqueue.ts";

export interface ReconcileResult {
  /** True if the resource matches its spec, or waits for a change. Its back-off is then reset. */
  readonly isSettled: boolean;
  /**
   * The milliseconds until the next reconcile of the resource if no event arrives; null if only the resync reconciles
   * it.
   */
  readonly requeueAfterMs: number | null;
}

export interface ReconcileLoopOptions {
  readonly kind: Kind;
  /** The name of the queue in the metrics. */
  readonly name: string;
  readonly workers: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: ControllerMetrics;
  readonly tasks: TaskGroup;
  /** Returns a random number from 0 to 1, to spread back-offs. */
  readonly random: () => number;
  /**
   * Converges one resource to its spec, or cleans up after a deleted one. `retryAtMs` is the time of the next
   * reconcile, in epoch milliseconds, if this one throws an error other than a RetryLaterError.
   */
  readonly reconcile: (
    name: string,
    signal: AbortSignal,
    retryAtMs: number,
  ) => Promise<ReconcileResult>;
}

/** The work queue of one kind with its workers, and the back-off after failures. */
export class ReconcileLoop {
  readonly #options: ReconcileLoopOptions;
  readonly #queue: WorkQueue;
  readonly #failures = new Map<string, number>();
  /** The number of replacement workers that have to end, because the calls for which they were started have ended. */
  #surplusWorkers = 0;

  constructor(options: ReconcileLoopOptions) {
    this.#options = options;
    this.#queue = new WorkQueue(options.clock);
    const { name } = options;
    const { queueAdds, queueDepth, queueSeconds } = options.metrics;
    const updateDepth = () => queueDepth.set({ name }, this.#queue.depth.waiting);
    this.#queue.onAdd = () => {
      queueAdds.inc({ name });
      updateDepth();
    };
    this.#queue.onTakeHints = updateDepth;
    this.#queue.onTake = (_key, waitedMs) => {
      queueSeconds.observe({ name }, waitedMs / 1000);
      updateDepth();
    };
  }

  start(): void {
    for (let worker = 0; worker < this.#options.workers; worker += 1)
      this.#options.tasks.run(`${this.#options.name} worker ${worker}`, (signal) =>
        this.#work(signal),
      );
  }

  add(key: string, priority: ReconcilePriority): void {
    this.#queue.add(key, priority);
  }

  /**
   * Queues a key after an event. A run that observes the key's resource after the event makes the hint unnecessary; see
   * `takeHints`.
   */
  addHint(key: string): void {
    this.#queue.add(key, "event", true);
  }

  /** Removes the hints about a key that have arrived since its reconcile began; see `WorkQueue.takeHints`. */
  takeHints(key: string): boolean {
    return this.#queue.takeHints(key);
  }

  /** Forgets earlier failures of the key, and queues it. */
  resetBackoffAndAdd(key: string, priority: ReconcilePriority): void {
    this.#failures.delete(key);
    this.#queue.add(key, priority);
  }

  /**
   * Closes the queue, so that no further reconcile begins. The shutdown of `options.tasks` ends the reconciles that
   * run.
   */
  close(): void {
    this.#queue.close();
  }

  /** True if no key is queued and no reconcile runs. */
  get isIdle(): boolean {
    const { waiting, processing } = this.#queue.depth;
    return waiting === 0 && processing === 0;
  }

  /**
   * Starts another worker while `call` only waits, so that ten apps that take ten minutes to stop do not delay other
   * apps.
   */
  async withReplacementWorker<T>(call: () => Promise<T>): Promise<T> {
    this.#options.tasks.run(`replacement ${this.#options.name} worker`, (signal) =>
      this.#work(signal),
    );
    try {
      return await call();
    } finally {
      this.#surplusWorkers += 1;
    }
  }

  async #work(signal: AbortSignal): Promise<void> {
    for (let key = await this.#queue.take(); key !== undefined; key = await this.#queue.take()) {
      try {
        await this.#reconcile(key, signal);
      } finally {
        this.#queue.done(key);
      }
      if (signal.aborted) return;
      if (this.#surplusWorkers > 0) {
        this.#surplusWorkers -= 1;
        return;
      }
    }
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<void> {
    const { metrics, logger, clock, random, kind, name } = this.#options;
    const failures = this.#failures.get(key) ?? 0;
    const backoffMs = reconcileBackoffMs(failures, random);
    const controller = { controller: name };
    const stopTimer = metrics.reconcileSeconds.startTimer(controller);
    metrics.activeWorkers.inc(controller);
    try {
      const retryAtMs = clock.now() + backoffMs;
      const { isSettled: settled, requeueAfterMs } = await this.#options.reconcile(
        key,
        signal,
        retryAtMs,
      );
      if (settled) this.#failures.delete(key);
      if (requeueAfterMs !== null) this.#queue.addAfter(key, requeueAfterMs, "event");
      const result = requeueAfterMs === null ? "success" : "requeue_after";
      metrics.reconcileTotal.inc({ ...controller, result });
    } catch (error) {
      if (isAbortError(error) && signal.aborted) return;
      const isTimed = error instanceof RetryLaterError;
      if (!isTimed) this.#failures.set(key, failures + 1);
      const nowMs = clock.now();
      const timedMs = isTimed ? error.nextRunAtMs(nowMs) - nowMs : backoffMs;
      const delayMs = Math.min(Math.max(1, timedMs), BACKOFF_MAX_MS);
      metrics.reconcileTotal.inc({ ...controller, result: "error" });
      metrics.queueRetries.inc({ name });
      const code = error instanceof BerthError ? error.code : "internal";
      logger.warn(
        { kind, name: key, code, error: getErrorMessage(error), retryInMs: delayMs },
        "reconcile failed, will retry",
      );
      this.#queue.addAfter(key, delayMs, "event");
    } finally {
      metrics.activeWorkers.dec(controller);
      stopTimer();
    }
  }
}
