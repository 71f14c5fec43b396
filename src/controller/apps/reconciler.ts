import { BerthError, isAbort, messageOf } from "../../base/errors.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ReconcileResult } from "../reconcile-loop.ts";
import { AppRun } from "./app-run.ts";
import type { ReconcilerContext, ReconcilerDeps } from "./context.ts";
import { deleteApp, sweepApp } from "./deletion.ts";
import { Executor } from "./executor.ts";
import { ImagePresence } from "./image-presence.ts";
import { Sightings } from "./sightings.ts";

/**
 * Brings one App towards its spec. Level-triggered: a run reads everything, compares, acts and
 * writes the status; it can be repeated and cut off at any point.
 */
export class AppReconciler {
  readonly #context: ReconcilerContext;

  constructor(deps: ReconcilerDeps) {
    this.#context = {
      ...deps,
      executor: new Executor(deps),
      images: new ImagePresence(deps.runtime, deps.clock),
      sightings: new Sightings(),
      sourceFailures: new Map(),
      looked: new Set(),
      lostSight: new Set(),
    };
  }

  /** Throws what the engine throws, after it has written that into the status; the caller backs off. */
  async reconcile(name: string, signal: AbortSignal): Promise<ReconcileResult> {
    const resource = this.#context.store.get("App", name);
    if (!resource) {
      await sweepApp(this.#context, name, signal);
      return { settled: true, requeueAfterMs: null };
    }
    const run = new AppRun(this.#context, resource);
    try {
      if (resource.metadata.deletionTimestamp !== null) {
        await deleteApp(this.#context, resource, signal);
        return { settled: true, requeueAfterMs: null };
      }
      return await run.toCompletion(signal);
    } catch (error) {
      if (isAbort(error) && signal.aborted) throw error;
      if (isUnreachable(error)) this.#context.lostSight.add(name);
      this.#writeFailure(run, resource, error);
      throw error;
    }
  }

  /** The engine went or came back, perhaps another one: nothing that was seen before is taken for granted. */
  forgetEngine(): void {
    this.#context.executor.forgetEnsured();
    this.#context.images.forget();
    this.#context.looked.clear();
  }

  engineLost(): void {
    for (const { metadata } of this.#context.store.list("App"))
      this.#context.lostSight.add(metadata.name);
  }

  imageRemoved(reference: string): void {
    this.#context.images.absent(reference);
  }

  #writeFailure(run: AppRun, resource: Resource<"App">, error: unknown): void {
    const unreachable = isUnreachable(error);
    const message =
      error instanceof BerthError
        ? [error.message, error.hint].filter(Boolean).join("; ")
        : "an error of Berth's own; see its log";
    if (!(error instanceof BerthError)) {
      this.#context.logger.error(
        { kind: "App", name: resource.metadata.name, err: error },
        "reconcile failed unexpectedly",
      );
    }
    run.writeStatus({
      unknown: unreachable ? `the container engine cannot be reached: ${messageOf(error)}` : null,
      progress: unreachable ? null : { reason: "WillRetry", message },
    });
  }
}

function isUnreachable(error: unknown): boolean {
  return error instanceof BerthError && error.code === "engine_unreachable";
}
