import * as labels from "../../labels.ts";
import type { ObservedContainer } from "../../runtime/port.ts";
import type { DesiredApp } from "../desired-app.ts";
import type { ContainerHealth } from "./plan-types.ts";

/** This file reads the role of a container in its App from its labels and its state. */

export function getSpecHash(container: ObservedContainer): string {
  return container.labels[labels.SPEC_HASH] ?? "";
}

export function getReplicaIndex(container: ObservedContainer): number {
  return Number(container.labels[labels.REPLICA] ?? "0");
}

export function hasEnded(container: ObservedContainer): boolean {
  return container.state === "exited";
}

export function isUp(container: ObservedContainer): boolean {
  return (
    container.state === "running" ||
    container.state === "paused" ||
    container.state === "restarting"
  );
}

export function isHealthy(
  container: ObservedContainer,
  health: ReadonlyMap<string, ContainerHealth>,
): boolean {
  return container.state === "running" && health.get(container.id)?.healthy === true;
}

/**
 * Divides containers into those of the desired version by replica, its surplus containers, and those of other versions.
 */
export function classifyContainers(
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
): {
  readonly kept: ReadonlyMap<number, ObservedContainer>;
  readonly surplus: readonly ObservedContainer[];
  readonly old: readonly ObservedContainer[];
} {
  const kept = new Map<number, ObservedContainer>();
  const surplus: ObservedContainer[] = [];
  const old: ObservedContainer[] = [];
  for (const container of containers) {
    const replica = getReplicaIndex(container);
    if (getSpecHash(container) !== desired.hash) old.push(container);
    else if (replica < desired.containers.length && !kept.has(replica))
      kept.set(replica, container);
    else surplus.push(container);
  }
  return { kept, surplus, old };
}
