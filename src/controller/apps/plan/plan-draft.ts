import type { ObservedContainer } from "../../runtime/port.ts";
import type { DesiredApp } from "../desired-app.ts";
import { findDriftLoop, nameDriftField } from "../drift-history.ts";
import type { Strategy } from "../rollout-strategy.ts";
import { isUp } from "./observed-containers.ts";
import type { ObservedApp, Operation, Plan } from "./plan-types.ts";

/** Collects the operations of a plan. */
export class PlanDraft {
  readonly desired: DesiredApp;
  readonly observed: ObservedApp;
  readonly strategy: Strategy;
  readonly corrections = new Set<string>();
  readonly exhausted: ObservedContainer[] = [];
  readonly failing: ObservedContainer[] = [];
  restartAtMs: number | null = null;
  requeueAtMs: number | null = null;
  driftLoop: string | null = null;
  #operations: Operation[] = [];
  #hasNetworksAndFiles = false;

  constructor(desired: DesiredApp, observed: ObservedApp) {
    this.desired = desired;
    this.observed = observed;
    this.strategy = desired.strategy;
  }

  add(...operations: readonly Operation[]): void {
    this.#operations.push(...operations);
  }

  /**
   * Plans, once per plan, the operations that create what a container needs at its start, if it is missing: the App's
   * networks, because a prune of the engine removes a network on which no container runs, and the App's files and
   * folders.
   */
  ensureNetworksAndFiles(): void {
    if (this.#hasNetworksAndFiles) return;
    this.#hasNetworksAndFiles = true;
    const { name, files, folders } = this.desired;
    for (const { name: folder, hostPath, stack } of folders)
      this.add({
        type: "makeFolder",
        folder: hostPath,
        cause: describeOwner("folder", folder, stack),
      });
    if (files.length > 0) this.add({ type: "writeFiles", name, files, cause: "the app's files" });
    const { network, networkLabels: labels, stackNetwork } = this.desired;
    this.add({ type: "ensureNetwork", network, labels, cause: "the app's network" });
    if (!stackNetwork) return;
    const { network: shared, labels: sharedLabels, pool } = stackNetwork;
    const cause = "the network of the app's stack";
    this.add({ type: "ensureNetwork", network: shared, labels: sharedLabels, pool, cause });
  }

  /**
   * Runs `work`, and returns the operations that `work` planned instead of adding them to the plan, so that the caller
   * can add other operations before them.
   */
  collect(work: () => void): Operation[] {
    const outer = this.#operations;
    this.#operations = [];
    try {
      work();
      return this.#operations;
    } finally {
      this.#operations = outer;
    }
  }

  /**
   * Returns true if the fields of this replica may be corrected, and records the corrections. Returns false, and
   * records a drift loop, if too many corrections were undone. Each replica has its own count, because a user who
   * removes several replicas, one after the other, undoes no correction.
   */
  tryCorrect(what: string | readonly string[], replica: number): boolean {
    const fields = [what].flat().map((field) => nameDriftField(field, replica));
    const loop = findDriftLoop(this.observed.drifts, fields, this.observed.nowMs);
    if (loop !== undefined) {
      this.driftLoop = loop;
      return false;
    }
    for (const field of fields) this.corrections.add(field);
    return true;
  }

  requeueAt(epochMs: number): void {
    this.requeueAtMs = Math.min(this.requeueAtMs ?? Number.POSITIVE_INFINITY, epochMs);
  }

  finish(): Plan {
    return {
      operations: this.#operations,
      strategy: this.strategy,
      corrections: [...this.corrections],
      driftLoop: this.driftLoop,
      exhausted: this.exhausted,
      failing: this.failing,
      restartAtMs: this.restartAtMs,
      requeueAtMs: this.requeueAtMs,
    };
  }
}

/** Returns the cause of an operation on data of the App, or of its stack. */
export function describeOwner(what: string, name: string, stack: string | undefined): string {
  return stack === undefined
    ? `the app's ${what} "${name}"`
    : `the ${what} "${name}" that apps of the stack ${stack} share`;
}

/**
 * Returns the operations that stop and remove the containers. All stops come before the removals, because the
 * executor runs consecutive stops concurrently.
 */
export function buildRemovals(
  containers: readonly ObservedContainer[],
  graceMs: number,
  cause: string,
): Operation[] {
  const present = containers.filter(({ state }) => state !== "removing");
  return [
    ...present.filter(isUp).map((container) => buildStop(container, graceMs, cause)),
    ...present.map(({ id, name }): Operation => ({ type: "removeContainer", id, name, cause })),
  ];
}

export function buildStop(
  container: ObservedContainer,
  graceMs: number,
  cause: string,
  isBackground = false,
): Operation {
  const { id, name } = container;
  return { type: "stopContainer", id, name, graceMs, isBackground, cause };
}
