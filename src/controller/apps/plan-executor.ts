import type { Clock } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { Ingress } from "../ingress/port.ts";
import type { LogArchive } from "../logs/log-archive.ts";
import type { ObservedContainer, WorkloadRuntime } from "../runtime/port.ts";
import { writeFiles } from "./app-files.ts";
import { makeFolder } from "./app-folders.ts";
import type { BackgroundStops } from "./background-stops.ts";
import type { Operation } from "./plan/plan-types.ts";
import { sweepRoutes } from "./route-sweep.ts";

/**
 * The time for which a network counts as existing after it was ensured, so that Apps created at the same time share
 * one call. The time is limited, because a prune removes a network on which no container runs.
 */
const NETWORK_VALID_MS = 2_000;

export interface PlanExecutorDependencies {
  readonly clock: Clock;
  readonly runtime: WorkloadRuntime;
  readonly store: Store;
  readonly ingress: Pick<Ingress, "table" | "mode">;
  readonly archive: LogArchive;
  readonly stops: BackgroundStops;
  /** Runs a call that may take minutes. Meanwhile another worker of the reconcile loop serves the other Apps. */
  readonly withReplacementWorker: <T>(call: () => Promise<T>) => Promise<T>;
}

/**
 * Executes the operations of a plan, with one call of the engine or the ingress for each. The caller starts pulls and
 * builds.
 */
export class PlanExecutor {
  readonly #dependencies: PlanExecutorDependencies;
  /**
   * Calls, completed or running, that ensure that a network exists or that remove dead targets from all routes. A later
   * operation uses the result of an earlier call. A failed creation or start of a container clears the map, because the
   * results may then be outdated.
   */
  readonly #ensured = new Map<string, EnsureCall>();

  constructor(deps: PlanExecutorDependencies) {
    this.#dependencies = deps;
  }

  /**
   * Executes operations. `created` maps the names of containers that were made in this reconcile run to their ids.
   * Throws the runtime's error; the operations before the failed one have been executed.
   */
  async execute(
    operation: Operation,
    app: string,
    created: Map<string, string>,
    signal: AbortSignal,
  ): Promise<void> {
    const { runtime, ingress, archive, stops, withReplacementWorker } = this.#dependencies;
    switch (operation.type) {
      case "pullImage":
      case "buildImage":
        return;
      case "switchRoute":
        await ingress.table.write(app, operation);
        return;
      case "ensureNetwork":
        await this.#ensure(`network ${operation.network}`, NETWORK_VALID_MS, () =>
          operation.pool === undefined
            ? runtime.ensureNetwork(operation.network, operation.labels, signal)
            : runtime.ensureStackNetwork(
                operation.network,
                operation.labels,
                operation.pool,
                signal,
              ),
        );
        return;
      case "writeFiles":
        writeFiles(operation.files);
        return;
      case "makeFolder":
        makeFolder(operation.folder);
        return;
      case "ensureVolume":
        // The volume is ensured before each creation, because the engine would create a missing one without Berth's
        // labels.
        await runtime.ensureVolume(operation.volume, operation.labels, signal);
        return;
      case "createContainer":
        try {
          created.set(operation.spec.name, await runtime.createContainer(operation.spec, signal));
        } catch (error) {
          this.#ensured.clear();
          throw error;
        }
        return;
      case "startContainer": {
        const id = findContainerId(operation, created);
        await this.#ensure("routes", Number.POSITIVE_INFINITY, () =>
          sweepRoutes(this.#dependencies, signal),
        );
        try {
          await runtime.startContainer(id, signal);
        } catch (error) {
          this.#ensured.clear();
          throw error;
        }
        return;
      }
      case "stopContainer":
        if (operation.isBackground) {
          stops.start(app, operation.id, operation.graceMs);
          return;
        }
        await withReplacementWorker(() =>
          runtime.stopContainer(operation.id, operation.graceMs, signal),
        );
        return;
      case "removeContainer":
        await archive.keep(app, operation, signal);
        await runtime.removeContainer(operation.id, signal);
        return;
      case "renameContainer":
        await runtime.renameContainer(operation.id, operation.name, signal);
        return;
      case "connectNetwork":
        await runtime.connectNetwork(
          findContainerId(operation, created),
          operation.network,
          operation.endpoint,
          signal,
        );
        return;
    }
  }

  /** Executes operations concurrently. Settles when all have ended; rejects with the first failure. */
  async executeAll(
    operations: readonly Operation[],
    app: string,
    created: Map<string, string>,
    signal: AbortSignal,
  ): Promise<void> {
    const outcomes = await Promise.allSettled(
      operations.map((operation) => this.execute(operation, app, created, signal)),
    );
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed) throw failed.reason;
  }

  /**
   * Forgets the networks and routes that were ensured. They may no longer exist after the connection to the engine
   * was lost.
   */
  forgetEnsured(): void {
    this.#ensured.clear();
  }

  async #ensure(key: string, validMs: number, call: () => Promise<void>): Promise<void> {
    const nowMs = this.#dependencies.clock.now();
    const known = this.#ensured.get(key);
    // If `sinceMs` is in the future, the clock was set back, and the age of the known result is unknown, so `call` is
    // called again.
    if (known && nowMs >= known.sinceMs && nowMs - known.sinceMs < validMs) return known.done;
    const ensuring = { sinceMs: nowMs, done: call() };
    this.#ensured.set(key, ensuring);
    try {
      await ensuring.done;
    } catch (error) {
      if (this.#ensured.get(key) === ensuring) this.#ensured.delete(key);
      throw error;
    }
  }
}

function findContainerId(
  { id, name }: { readonly id: string | null; readonly name: string },
  created: ReadonlyMap<string, string>,
): string {
  const found = id ?? created.get(name);
  if (found === undefined)
    throw new BerthError("internal", `container ${name} was not created in this run`);
  return found;
}

interface EnsureCall {
  readonly sinceMs: number;
  readonly done: Promise<void>;
}

/** Groups consecutive stops. They run concurrently, because each may take its whole grace period. */
export function groupConcurrentStops(operations: readonly Operation[]): Operation[][] {
  const groups: Operation[][] = [];
  for (const operation of operations) {
    const last = groups.at(-1);
    if (operation.type === "stopContainer" && last?.[0]?.type === "stopContainer")
      last.push(operation);
    else groups.push([operation]);
  }
  return groups;
}

/** Returns when the container was last started, in epoch milliseconds; 0 if it never was. */
export function startedAtMs(container: ObservedContainer): number {
  return container.startedAt === null ? 0 : Date.parse(container.startedAt);
}
