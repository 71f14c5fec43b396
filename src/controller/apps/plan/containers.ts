import * as labels from "../../labels.ts";
import type { ContainerSpec, ObservedContainer } from "../../runtime/port.ts";
import { decideRestart, type RestartPolicy } from "../restart-budget.ts";
import { getReplicaIndex, getSpecHash } from "./observed-containers.ts";
import { buildRemovals, buildStop, type PlanDraft } from "./plan-draft.ts";

/** What single containers need, whatever version they are of. */

/** Makes and starts containers that are not there, with what they stand on. */
export function planCreations(
  draft: PlanDraft,
  creations: readonly ContainerSpec[],
  cause: string,
  restart: string | null = null,
): void {
  if (creations.length === 0) return;
  const { desired } = draft;
  draft.ensureNetwork();
  for (const volume of desired.volumes) {
    draft.add({
      type: "ensureVolume",
      volume: volume.name,
      labels: volume.labels,
      cause: "the app's data",
    });
  }
  for (const spec of creations) {
    draft.add(
      { type: "createContainer", spec, cause },
      { type: "startContainer", name: spec.name, id: null, restart, cause },
    );
  }
}

/** What the containers of the wanted version need, each by itself. */
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

/** Things that no call can change on a container that is there: it is made anew. */
function planReplacement(
  draft: PlanDraft,
  container: ObservedContainer,
  spec: ContainerSpec,
): boolean {
  const { desired } = draft;
  const moved = container.labels[labels.LOOPBACK_PORT] !== spec.labels[labels.LOOPBACK_PORT];
  const edited =
    container.memoryBytes !== (spec.memoryBytes ?? null) ||
    container.nanoCpus !== (spec.nanoCpus ?? null);
  if (container.state === "removing") return true;
  const remake = (cause: string, restart: string | null = null) => {
    draft.add(...buildRemovals([container], desired.app.stopGraceMs, cause));
    planCreations(draft, [spec], cause, restart);
  };
  if (moved) remake("its port was taken");
  else if (edited && draft.tryCorrect("resources", getReplicaIndex(container)))
    remake("its limits were changed by hand");
  else if (container.state === "dead") {
    // An engine may give up the next one as well.
    const restart = findDueRestartBudget(draft, container, desired.app.restart);
    if (restart !== undefined) remake("the engine gave it up", restart);
  } else return false;
  return true;
}

function planContainer(draft: PlanDraft, container: ObservedContainer, spec: ContainerSpec): void {
  const { desired, observed } = draft;
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
    draft.ensureNetwork();
    draft.add({
      type: "connectNetwork",
      id: container.id,
      name: spec.name,
      network: desired.network,
      aliases: spec.aliases,
      cause: "it was disconnected by hand",
    });
  }
  if (container.state === "created" && container.error === null) {
    draft.ensureNetwork();
    draft.add({
      type: "startContainer",
      id: container.id,
      name: spec.name,
      restart: null,
      cause: "it was made but not started",
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

function planRestart(
  draft: PlanDraft,
  container: ObservedContainer,
  isRunning: boolean,
  policy: RestartPolicy = draft.desired.app.restart,
): void {
  const { desired, observed } = draft;
  const restart = isRunning
    ? spendRestartBudget(draft, container, policy)
    : findDueRestartBudget(draft, container, policy);
  if (restart === undefined) return;
  const cause = isRunning
    ? `unhealthy: ${observed.health.get(container.id)?.message ?? "the health check fails"}`
    : restart === null
      ? "the app is to run"
      : `it ended${container.exitCode === null ? "" : ` with code ${container.exitCode}`}`;
  // The restart is counted at the start, which follows a stop whether or not Berth lives to see it.
  if (isRunning) draft.add(buildStop(container, desired.app.stopGraceMs, cause));
  draft.ensureNetwork();
  const { id, name } = container;
  draft.add({ type: "startContainer", id, name, restart, cause });
}

/** Whose budget the start of a container that ended counts against, null for nobody's; undefined: it may not start now. */
function findDueRestartBudget(
  draft: PlanDraft,
  container: ObservedContainer,
  policy: RestartPolicy,
): string | null | undefined {
  return draft.observed.isFresh ? null : spendRestartBudget(draft, container, policy);
}

/** As `dueRestart`, of one that counts in any case. */
function spendRestartBudget(
  draft: PlanDraft,
  container: ObservedContainer,
  policy: RestartPolicy,
): string | undefined {
  const { restarts, nowMs } = draft.observed;
  const budget = getRestartBudgetKey(container);
  const decision = decideRestart(restarts, budget, policy, nowMs);
  if (decision.type === "now") return budget;
  if (decision.type === "exhausted") draft.exhausted.push(container);
  else
    draft.restartAtMs = Math.min(draft.restartAtMs ?? Number.POSITIVE_INFINITY, decision.untilMs);
  return undefined;
}

/**
 * A version that is on its way out is kept up within its budget, which waiting does not renew, since nobody
 * is told when it is used up: the wanted version does not fail for it.
 */
export function planOldRestart(draft: PlanDraft, container: ObservedContainer): void {
  const failed = draft.exhausted.length;
  const policy = { ...draft.desired.app.restart, intervalMs: Number.POSITIVE_INFINITY };
  planRestart(draft, container, false, policy);
  draft.exhausted.length = failed;
}

/** Whose restarts count together: those of one replica of one version. */
function getRestartBudgetKey(container: ObservedContainer): string {
  return `${getSpecHash(container)}/${getReplicaIndex(container)}`;
}
