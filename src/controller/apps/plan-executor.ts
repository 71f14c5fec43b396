import type { Clock } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { Ingress } from "../ingress/port.ts";
import type { LogArchive } from "../logs/log-archive.ts";
import type { ObservedContainer, WorkloadRuntime } from "../runtime/port.ts";
import type { BackgroundStops } from "./background-stops.ts";
import type { Operation } from "./plan/plan-types.ts";
import { sweepRoutes } from "./route-sweep.ts";

/**
 * How long a network that was seen counts as there: Apps that are made at the same time share one call.
 * Not for ever, since it goes when somebody prunes networks while nothing runs on it.
 */
const NETWORK_VALID_MS = 2_000;

export interface PlanExecutorDependencies {
  readonly clock: Clock;
  readonly runtime: WorkloadRuntime;
  readonly store: Store;
  readonly ingress: Pick<Ingress, "table" | "mode">;
  readonly archive: LogArchive;
  readonly stops: BackgroundStops;
  /** Runs a call that may take minutes without keeping a worker from other Apps. */
  readonly withReplacementWorker: <T>(call: () => Promise<T>) => Promise<T>;
}

/** Runs the operations of a plan, one call each, in order. Pulls and builds are not its work. */
export class PlanExecutor {
  readonly #runtime: WorkloadRuntime;
  readonly #archive: LogArchive;
  readonly #ingress: PlanExecutorDependencies["ingress"];
  readonly #dependencies: PlanExecutorDependencies;
  readonly #withReplacementWorker: PlanExecutorDependencies["withReplacementWorker"];
  /**
   * Networks, and the routes of all Apps, that this process has seen to, or is seeing to. What fails to be
   * made or started forgets them.
   */
  readonly #ensured = new Map<string, EnsureCall>();

  constructor(deps: PlanExecutorDependencies) {
    const { runtime, ingress, archive, withReplacementWorker: aside } = deps;
    this.#dependencies = deps;
    this.#runtime = runtime;
    this.#ingress = ingress;
    this.#archive = archive;
    this.#withReplacementWorker = aside;
  }

  /**
   * `created` maps the names of containers made in this run to their ids. Throws what the runtime throws; operations
   * before the failed one have happened.
   */
  async execute(
    operation: Operation,
    app: string,
    created: Map<string, string>,
    signal: AbortSignal,
  ): Promise<void> {
    const runtime = this.#runtime;
    switch (operation.type) {
      case "pullImage":
      case "buildImage":
        return;
      case "switchRoute":
        await this.#ingress.table.write(app, operation);
        return;
      case "ensureNetwork":
        await this.#ensure(`network ${operation.network}`, NETWORK_VALID_MS, () =>
          runtime.ensureNetwork(operation.network, operation.labels, signal),
        );
        return;
      case "ensureVolume":
        // Each time: an engine makes what is missing by itself, but without our labels.
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
        const id = operation.id ?? created.get(operation.name);
        if (id === undefined)
          throw new BerthError("internal", `container ${operation.name} was not made in this run`);
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
          this.#dependencies.stops.start(app, operation.id, operation.graceMs);
          return;
        }
        await this.#withReplacementWorker(() =>
          runtime.stopContainer(operation.id, operation.graceMs, signal),
        );
        return;
      case "removeContainer":
        await this.#archive.keep(app, operation, signal);
        await runtime.removeContainer(operation.id, signal);
        return;
      case "renameContainer":
        await runtime.renameContainer(operation.id, operation.name, signal);
        return;
      case "connectNetwork":
        await runtime.connectNetwork(operation.id, operation.network, operation.aliases, signal);
        return;
    }
  }

  /**
   * Operations that do not wait for each other. All are carried out, or have failed, when this
   * returns; throws the first failure.
   */
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

  /** After the engine was away nothing is taken for granted. */
  forgetEnsured(): void {
    this.#ensured.clear();
  }

  async #ensure(key: string, validMs: number, call: () => Promise<void>): Promise<void> {
    const nowMs = this.#dependencies.clock.now();
    const known = this.#ensured.get(key);
    // A clock that was set back makes nothing younger.
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

interface EnsureCall {
  readonly sinceMs: number;
  readonly done: Promise<void>;
}

/** Stops wait for programs to end, each up to its grace: those that follow each other run together. */
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

/** When a container of this kind last started, in epoch milliseconds; 0 where it never did. */
export function startedAtMs(container: ObservedContainer): number {
  return container.startedAt === null ? 0 : Date.parse(container.startedAt);
}
