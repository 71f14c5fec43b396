import { findDifferences } from "../../container-differences.ts";
import * as labels from "../../labels.ts";
import type { ContainerSpec, ObservedContainer } from "../../runtime/port.ts";
import { decideRestart, isBeyondBudget } from "../restart-budget.ts";
import { endpointOf, withAddress } from "./container-addresses.ts";
import { getReplicaIndex, getSpecHash, isHealthy, isUp } from "./observed-containers.ts";
import { buildRemovals, buildStop, describeOwner, type PlanDraft } from "./plan-draft.ts";
import type { Operation } from "./plan-types.ts";

/** The functions in this file plan the operations that single containers need, independent of the rollout strategy. */

/** Plans the network and the volumes of missing containers, and the creation and start of these containers. */
export function planCreations(
  draft: PlanDraft,
  creations: readonly ContainerSpec[],
  cause: string,
  restart: string | null = null,
): void {
  if (creations.length === 0) return;
  const { desired } = draft;
  draft.ensureNetworksAndFiles();
  for (const { name: volume, labels: own, stack } of desired.volumes) {
    const volumeCause = describeOwner("volume", own[labels.VOLUME] ?? "", stack);
    draft.add({ type: "ensureVolume", volume, labels: own, cause: volumeCause });
  }
  for (const spec of creations) {
    draft.add(
      { type: "createContainer", spec: withAddress(draft, spec), cause },
      ...connectFurtherNetworks(spec, null, cause),
      { type: "startContainer", name: spec.name, id: null, restart, cause },
    );
  }
}

/** Returns the operations that connect a container, or a new one (null), to the further networks that it lacks. */
function connectFurtherNetworks(
  { name, furtherNetworks = [] }: ContainerSpec,
  container: ObservedContainer | null,
  cause: string,
): Operation[] {
  return furtherNetworks
    .filter(({ network }) => !container?.networks.includes(network))
    .map(({ network, aliases }) => ({
      type: "connectNetwork",
      id: container?.id ?? null,
      name,
      network,
      endpoint: { aliases },
      cause,
    }));
}

/**
 * Plans the operations for each container of the desired version: a replacement, a correction, a start or a restart.
 */
export function planContainers(
  draft: PlanDraft,
  kept: ReadonlyMap<number, ObservedContainer>,
): void {
  for (const [replica, container] of kept) {
    const spec = draft.desired.containers[replica];
    if (!spec) continue;
    if (!planReplacement(draft, container, spec)) planContainer(draft, container, spec);
  }
}

/**
 * Plans the replacement of a container if it has a difference that can only be corrected by a new container. Returns
 * false if there is no such difference.
 */
function planReplacement(
  draft: PlanDraft,
  container: ObservedContainer,
  spec: ContainerSpec,
): boolean {
  const { desired, observed } = draft;
  const moved = container.labels[labels.LOOPBACK_PORT] !== spec.labels[labels.LOOPBACK_PORT];
  const edited =
    container.memoryBytes !== (spec.memoryBytes ?? null) ||
    container.nanoCpus !== (spec.nanoCpus ?? null);
  if (container.state === "removing") return true;
  const replace = (cause: string, restart: string | null = null) => {
    draft.add(...buildRemovals([container], desired.app.stopGraceMs, cause));
    planCreations(draft, [spec], cause, restart);
  };
  const differences = findDifferences(container, spec);
  // Until the engine holds the image of the replacement, the old container is neither replaced nor changed.
  if (differences.length > 0 && observed.image === "absent") return true;
  if (moved) replace("another program uses its port");
  else if (differences.length > 0 && draft.tryCorrect(differences, getReplicaIndex(container)))
    replace(
      `the container was created or changed by hand, with other settings: ${differences.join(", ")}`,
    );
  else if (edited && draft.tryCorrect("resources", getReplicaIndex(container)))
    replace("the container's limits were changed by hand");
  else if (container.state === "dead") {
    // The engine cannot start this container any more. The replacement is subject to the restart budget, because the
    // engine may fail with it too.
    const restart = findDueRestartBudget(draft, container, isRestartedForEver(draft));
    if (restart !== undefined) replace("the engine cannot start the container any more", restart);
  } else return false;
  return true;
}

function planContainer(draft: PlanDraft, container: ObservedContainer, spec: ContainerSpec): void {
  const { desired, observed } = draft;
  noteFailing(draft, container);
  const replica = getReplicaIndex(container);
  if (container.name !== spec.name && draft.tryCorrect("name", replica)) {
    draft.add({
      type: "renameContainer",
      id: container.id,
      name: spec.name,
      from: container.name,
      cause: "it was renamed by hand",
    });
  }
  if (!container.networks.includes(desired.network) && draft.tryCorrect("network", replica)) {
    draft.ensureNetworksAndFiles();
    draft.add({
      type: "connectNetwork",
      id: container.id,
      name: spec.name,
      network: desired.network,
      endpoint: endpointOf(draft, spec),
      cause: "it was disconnected by hand",
    });
  }
  // A container that never ran may lack a further network because Berth ended between its creation and the connection.
  const isNew = container.state === "created" && container.error === null;
  const missing = connectFurtherNetworks(spec, container, "it was disconnected by hand");
  if (!isNew && missing.length > 0 && draft.tryCorrect("network", replica)) {
    draft.ensureNetworksAndFiles();
    draft.add(...missing);
  }
  if (isNew) {
    draft.ensureNetworksAndFiles();
    draft.add(
      ...connectFurtherNetworks(spec, container, "the container was created but not connected"),
    );
    draft.add({
      type: "startContainer",
      id: container.id,
      name: spec.name,
      restart: null,
      cause: "the container was created but not started",
    });
  } else if (container.isPortTaken && !isUp(container)) {
    // A taken port is not a failure of the container, so the start is tried again with the reconciler's back-off.
    draft.ensureNetworksAndFiles();
    draft.add({
      type: "startContainer",
      id: container.id,
      name: spec.name,
      restart: null,
      cause: "another program had a port that the container publishes",
    });
  } else if (container.state === "paused") {
    if (draft.tryCorrect("paused", replica))
      draft.add(buildStop(container, desired.app.stopGraceMs, "it was paused by hand"));
  } else if (container.state === "running") {
    if (observed.health.get(container.id)?.restartDue) planRestart(draft, container, true);
  } else if (container.state !== "restarting") {
    planRestart(draft, container, false);
  }
}

/** Records a container of a stable version that has used up its restart budget and is not healthy again yet. */
function noteFailing(draft: PlanDraft, container: ObservedContainer): void {
  const { isProven, restarts, nowMs, health } = draft.observed;
  const { restart } = draft.desired.app;
  if (!isProven || isHealthy(container, health)) return;
  if (isBeyondBudget(restarts, getRestartBudgetKey(container), restart, nowMs))
    draft.failing.push(container);
}

function planRestart(
  draft: PlanDraft,
  container: ObservedContainer,
  isRunning: boolean,
  isEndless = isRestartedForEver(draft),
): void {
  const { desired, observed } = draft;
  const restart = isRunning
    ? requestRestart(draft, container, isEndless)
    : findDueRestartBudget(draft, container, isEndless);
  if (restart === undefined) return;
  const cause = isRunning
    ? `unhealthy: ${observed.health.get(container.id)?.message ?? "the health check fails"}`
    : restart === null
      ? "the app is to run"
      : `it ended${container.exitCode === null ? "" : ` with code ${container.exitCode}`}`;
  // A restart is counted when the container is about to start, not when it stops, because the start follows even if
  // Berth crashes in between.
  if (isRunning) draft.add(buildStop(container, desired.app.stopGraceMs, cause));
  draft.ensureNetworksAndFiles();
  const { id, name } = container;
  draft.add({ type: "startContainer", id, name, restart, cause });
}

/**
 * Returns true if restarts have no limit. A version that was stable earlier is never given up, and no version fails
 * while a resource that it depends on is missing.
 */
function isRestartedForEver({ observed }: PlanDraft): boolean {
  return observed.isProven || observed.blockedBy !== null;
}

/**
 * Checks if a container may be started. Returns the key of the restart budget under which the start is counted; null if
 * the start does not count as a restart; undefined if the budget allows no start now.
 */
function findDueRestartBudget(
  draft: PlanDraft,
  container: ObservedContainer,
  isEndless: boolean,
): string | null | undefined {
  return draft.observed.isFresh ? null : requestRestart(draft, container, isEndless);
}

/**
 * Returns the key under which the caller has to count a restart of the container; undefined if the restart budget
 * allows no restart now. The plan then contains the time of the next allowed restart, or the container as one whose
 * budget is used up.
 */
function requestRestart(
  draft: PlanDraft,
  container: ObservedContainer,
  isEndless: boolean,
): string | undefined {
  const { restarts, nowMs } = draft.observed;
  const { restart: policy } = draft.desired.app;
  const budget = getRestartBudgetKey(container);
  const decision = decideRestart(restarts, budget, policy, nowMs, isEndless);
  if (decision.type === "now") return budget;
  if (decision.type === "exhausted") draft.exhausted.push(container);
  else
    draft.restartAtMs = Math.min(draft.restartAtMs ?? Number.POSITIVE_INFINITY, decision.untilMs);
  return undefined;
}

/**
 * Plans the restart of a container of an old version that is still needed, because its replacement has not received
 * requests yet. A one-shot is not restarted: it has run to its end, or has failed.
 */
export function planOldRestart(draft: PlanDraft, container: ObservedContainer): void {
  const { desired, observed } = draft;
  if (desired.app.oneShot || observed.completed.includes(getSpecHash(container))) return;
  planRestart(draft, container, false, true);
}

/**
 * Returns the key under which the restarts of a container are counted. The restarts of one replica of one version count
 * together.
 */
function getRestartBudgetKey(container: ObservedContainer): string {
  return `${getSpecHash(container)}/${getReplicaIndex(container)}`;
}
