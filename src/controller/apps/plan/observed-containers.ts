import { findDifferences } from "../../container-differences.ts";
import * as labels from "../../labels.ts";
import type { ObservedContainer } from "../../runtime/port.ts";
import type { DesiredApp } from "../desired-app.ts";
import type { ContainerHealth } from "./plan-types.ts";

/** The functions in this file derive a container's role in its App from the labels and the state of the container. */

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

/** A container that differs from the spec, although it has the labels of the spec's version. */
export interface ForeignContainer {
  readonly container: ObservedContainer;
  /** The names of the settings whose values differ from the spec. */
  readonly differences: readonly string[];
}

/** Lists the containers of the desired version that another program has created or changed. */
export function listForeignContainers(
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
): readonly ForeignContainer[] {
  return [...classifyContainers(desired, containers).kept].flatMap(([replica, container]) => {
    const spec = desired.containers[replica];
    const differences = spec ? findDifferences(container, spec) : [];
    return differences.length === 0 ? [] : [{ container, differences }];
  });
}

/**
 * Divides containers into three groups: those of the desired version, by replica; surplus containers of the desired
 * version; and those of other versions. If several containers have the same replica number, the one with the name
 * from the spec is kept.
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
    const spec = desired.containers[replica];
    const known = kept.get(replica);
    if (getSpecHash(container) !== desired.hash) old.push(container);
    else if (!spec || (known && container.name !== spec.name)) surplus.push(container);
    else {
      if (known) surplus.push(known);
      kept.set(replica, container);
    }
  }
  return { kept, surplus, old };
}
