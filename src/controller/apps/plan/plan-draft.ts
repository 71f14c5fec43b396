import type { ObservedContainer } from "../../runtime/port.ts";
import type { DesiredApp } from "../desired-app.ts";
import { findDriftLoop } from "../drift-history.ts";
import type { Strategy } from "../rollout-strategy.ts";
import { isUp } from "./observed-containers.ts";
import type { ObservedApp, Operation, Plan } from "./plan-types.ts";

/** A plan while it is being made. */
export class PlanDraft {
  readonly desired: DesiredApp;
  readonly observed: ObservedApp;
  readonly strategy: Strategy;
  readonly corrections = new Set<string>();
  readonly exhausted: ObservedContainer[] = [];
  restartAtMs: number | null = null;
  requeueAtMs: number | null = null;
  driftLoop: string | null = null;
  #operations: Operation[] = [];
  #hasNetwork = false;

  constructor(desired: DesiredApp, observed: ObservedApp) {
    this.desired = desired;
    this.observed = observed;
    this.strategy = desired.strategy;
  }

  add(...operations: readonly Operation[]): void {
    this.#operations.push(...operations);
  }

  /**
   * Before whatever needs the network: an engine removes one when it is told to prune and nothing
   * runs on it. Once is enough for all that follows.
   */
  ensureNetwork(): void {
    if (this.#hasNetwork) return;
    this.#hasNetwork = true;
    const { network, networkLabels: labels } = this.desired;
    this.add({ type: "ensureNetwork", network, labels, cause: "the app's network" });
  }

  /** What `work` adds, apart from the plan, so that something can go before it. */
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
   * True where the field of this replica may be corrected (again); notes either the correction or
   * the loop. By replica: who takes five away one after the other does not fight with Berth.
   */
  tryCorrect(what: string, replica: number): boolean {
    const field = replica === 0 ? what : `${what} of replica ${replica}`;
    const loop = findDriftLoop(this.observed.drifts, [field], this.observed.nowMs);
    if (loop !== undefined) {
      this.driftLoop = loop;
      return false;
    }
    this.corrections.add(field);
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
      restartAtMs: this.restartAtMs,
      requeueAtMs: this.requeueAtMs,
    };
  }
}

/** Stops first, which the executor does side by side, and only then removals. */
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
