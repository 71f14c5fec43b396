import { BerthError, getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Resource } from "../../resources/resource.ts";
import type { PlanReport } from "../port.ts";
import type { ReconcileResult } from "../reconcile-loop.ts";
import { RetryLaterError } from "../retry-later-error.ts";
import { finalizeApp, removeOrphanedContainers } from "./app-deletion.ts";
import { AppRun } from "./app-run.ts";
import { type DryRunOptions, reportAppPlan } from "./dry-run.ts";
import { FirstSeenTimes } from "./first-seen.ts";
import { ImagePresence } from "./image-presence.ts";
import { describeBlockedRun } from "./outage.ts";
import { PlanExecutor } from "./plan-executor.ts";
import type { ReconcilerContext, ReconcilerDependencies } from "./reconciler-context.ts";

/**
 * Converges one App to its spec. It is level-triggered: a reconcile run reads the whole state, compares it with the
 * spec, acts, and writes the status. A run can be interrupted at any point and repeated.
 */
export class AppReconciler {
  readonly #context: ReconcilerContext;

  constructor(deps: ReconcilerDependencies) {
    this.#context = {
      ...deps,
      executor: new PlanExecutor(deps),
      images: new ImagePresence(deps.runtime, deps.clock),
      firstSeenTimes: new FirstSeenTimes(),
      inputsOfFailedSources: new Map(),
      observedApps: new Set(),
      appsEndedWithEngine: new Set(),
    };
  }

  /**
   * Reconciles the App once. If the engine fails, the error is written to the status and then thrown. The caller has to
   * call this method again at `retryAtMs`, or at the time in a thrown RetryLaterError.
   */
  async reconcile(name: string, signal: AbortSignal, retryAtMs: number): Promise<ReconcileResult> {
    const resource = this.#context.store.get("App", name);
    if (!resource) {
      await this.#context.lease.ensure(signal);
      await removeOrphanedContainers(this.#context, name, signal);
      return { isSettled: true, requeueAfterMs: null };
    }
    const run = new AppRun(this.#context, resource);
    try {
      // The run ends here if another process has the lease on the engine: otherwise the run would mistake the work of
      // that process for its own.
      await this.#context.lease.ensure(signal);
      if (resource.metadata.deletionTimestamp !== null) {
        await finalizeApp(this.#context, resource, signal);
        return { isSettled: true, requeueAfterMs: null };
      }
      return await run.run(signal);
    } catch (error) {
      if (isAbortError(error) && signal.aborted) throw error;
      if (isEngineUnreachableError(error)) this.#context.appsEndedWithEngine.add(name);
      this.#writeFailure(run, resource, error, retryAtMs);
      throw error;
    }
  }

  /** Returns what `reconcile` would do now, without doing it. */
  plan(options: DryRunOptions, signal: AbortSignal): Promise<PlanReport> {
    return reportAppPlan(this.#context, options, signal);
  }

  /** Forgets all observations, because the engine was lost or has come back, and may be a different engine. */
  resetEngineState(): void {
    this.#context.executor.forgetEnsured();
    this.#context.images.clear();
    this.#context.observedApps.clear();
  }

  markEngineLost(): void {
    for (const { metadata } of this.#context.store.list("App"))
      this.#context.appsEndedWithEngine.add(metadata.name);
  }

  handleImageRemoved(reference: string): void {
    this.#context.images.markAbsent(reference);
  }

  #writeFailure(run: AppRun, resource: Resource<"App">, error: unknown, retryAtMs: number): void {
    const unknown = explainUnknown(error);
    const message =
      error instanceof BerthError
        ? [error.message, error.hint].filter(Boolean).join("; ")
        : "an internal error of Berth; see its log";
    if (!(error instanceof BerthError)) {
      this.#context.logger.error(
        { kind: "App", name: resource.metadata.name, err: error },
        "reconcile failed unexpectedly",
      );
    }
    run.writeStatus({
      unknown,
      progress: unknown !== null ? null : { reason: "WillRetry", message },
      outage: describeBlockedRun(error),
      nextRetryAtMs: error instanceof RetryLaterError ? error.retryAtMs : retryAtMs,
    });
  }
}

/** Returns why the state of the containers is not known; null if it is known. */
function explainUnknown(error: unknown): string | null {
  if (isEngineUnreachableError(error))
    return `the container engine cannot be reached: ${getErrorMessage(error)}`;
  if (error instanceof BerthError && error.code === "engine_leased")
    return [error.message, error.hint].join("; ");
  return null;
}

function isEngineUnreachableError(error: unknown): boolean {
  return error instanceof BerthError && error.code === "engine_unreachable";
}
