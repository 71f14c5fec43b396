import { timestamp } from "../../base/clock.ts";
import {
  type AppPhase,
  type AppStatus,
  type Condition,
  type ConditionStatus,
  type ConditionType,
  type ContainerStatus,
  setCondition,
} from "../../resources/app-status.ts";
import * as labels from "../labels.ts";
import type { Reason } from "../reason.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { AppFindings, SetCondition } from "./app-findings.ts";
import { isComplete, isDraining } from "./app-readiness.ts";
import { setBuiltCondition } from "./built-condition.ts";
import type { DesiredApp } from "./desired-app.ts";
import { findForeignSettings, setDriftedCondition } from "./drifted-condition.ts";
import { describeEngineOnlyImage } from "./image-pin.ts";
import { getReplicaIndex, getSpecHash, isHealthy } from "./plan/observed-containers.ts";
import { getTarget, isServing, isVersionReady } from "./plan/plan-route.ts";
import { recentRestarts } from "./restart-budget.ts";
import { isObserved } from "./rollout-window.ts";
import { findRoutingProblem, getAppUrl, setRoutedCondition } from "./routed-condition.ts";

export function buildAppStatus(findings: AppFindings): AppStatus {
  const { resource, memory, nowMs } = findings;
  const verdict = judgeReadiness(findings);
  let conditions: readonly Condition[] = [];
  for (const previous of resource.status?.conditions ?? []) conditions = [...conditions, previous];
  const set = (
    type: ConditionType,
    status: ConditionStatus | null,
    reason: string,
    message: string,
  ) => {
    conditions =
      status === null
        ? conditions.filter((condition) => condition.type !== type)
        : setCondition(conditions, {
            type,
            status,
            reason,
            message,
            lastTransitionTime: timestamp(nowMs),
            observedGeneration: resource.metadata.generation,
          });
  };
  const unknown = findings.unknown;
  const stalled =
    memory.stalled ?? findings.sourceFailure ?? findRepeatedFailure(findings) ?? findings.outage;
  const available = findings.containers.filter((item) => isAvailable(findings, item)).length;
  set("Ready", verdict.ready, verdict.reason, verdict.message);
  if (findings.refused) set("Accepted", "False", findings.refused.reason, findings.refused.message);
  else set("Accepted", "True", "Valid", "the spec is valid");
  if (unknown !== null) set("Available", "Unknown", "EngineUnreachable", unknown);
  else if (available > 0)
    set(
      "Available",
      "True",
      "Serving",
      `${available} healthy ${available === 1 ? "container" : "containers"}`,
    );
  else set("Available", "False", "NoHealthyContainer", "no container is healthy");
  setProgressingCondition(findings, verdict, set);
  setBuiltCondition(findings, set);
  const { fetchFailure } = findings;
  set(
    "FetchFailed",
    fetchFailure && "True",
    fetchFailure?.reason ?? "",
    fetchFailure?.message ?? "",
  );
  setRoutedCondition(findings, set);
  setDriftedCondition(findings, set);
  set("Stalled", stalled ? "True" : null, stalled?.reason ?? "", stalled?.message ?? "");

  return {
    phase: verdict.phase,
    observedGeneration: resource.metadata.generation,
    conditions,
    revisions: findings.revisions,
    // While the engine cannot be reached, the containers that were observed last are shown.
    containers:
      unknown !== null && findings.containers.length === 0
        ? (resource.status?.containers ?? [])
        : findings.containers
            .map((container) => buildContainerStatus(findings, container))
            .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    url: unknown !== null ? (resource.status?.url ?? null) : getAppUrl(findings),
    nextRetryAt: findings.nextRetryAtMs === null ? null : timestamp(findings.nextRetryAtMs),
    restarts: findings.desired
      ? recentRestarts(memory.restarts, findings.desired.app.restart, nowMs).length
      : memory.restarts.length,
    memory,
  };
}

/**
 * True if the container is healthy, or if it belongs to an older version and still has requests. The desired health
 * check does not apply to an older version.
 */
function isAvailable(findings: AppFindings, container: ObservedContainer): boolean {
  const { desired } = findings;
  if (isHealthy(container, findings.health)) return true;
  const isOlder = desired !== null && getSpecHash(container) !== desired.hash;
  return desired?.isRouted === true && isOlder && isServing(desired, findings, container);
}

interface ReadyVerdict extends Reason {
  readonly phase: AppPhase;
  readonly ready: ConditionStatus;
}

const notReady = (phase: AppPhase, reason: string, message: string): ReadyVerdict => ({
  phase,
  ready: "False",
  reason,
  message,
});

/** Decides if an App is Ready, and in which phase it is. */
function judgeReadiness(findings: AppFindings): ReadyVerdict {
  const { resource, desired, memory } = findings;
  const serves = findings.containers.some((container) => isAvailable(findings, container));
  if (findings.unknown !== null) {
    const phase = resource.metadata.deletionTimestamp === null ? "unknown" : "deleting";
    return { phase, ready: "Unknown", reason: "EngineUnreachable", message: findings.unknown };
  }
  if (resource.metadata.deletionTimestamp !== null)
    return notReady("deleting", "Deleting", "being deleted");
  if (memory.stalled)
    return notReady(serves ? "degraded" : "failed", memory.stalled.reason, memory.stalled.message);
  if (findings.refused)
    return notReady(
      serves ? "degraded" : "pending",
      findings.refused.reason,
      findings.refused.message,
    );
  if (findings.sourceFailure) {
    const { reason, message } = findings.sourceFailure;
    return notReady(serves ? "degraded" : "failed", reason, message);
  }
  if (findings.outage) {
    const { reason, message } = findings.outage;
    return notReady(serves ? "degraded" : "failed", reason, message);
  }
  if (!desired) {
    const { reason, message } = findings.progress ??
      findings.blocked ?? { reason: "Pending", message: "not reconciled yet" };
    return notReady(resource.spec.source === undefined ? "pending" : "building", reason, message);
  }
  if (desired.app.suspend) {
    return notReady(
      serves ? "running" : "stopped",
      "Suspended",
      "suspend is true: Berth leaves the app as it is",
    );
  }
  if (!desired.app.running) {
    const up = findings.containers.filter((container) => container.state === "running").length;
    return up === 0
      ? notReady("stopped", "Stopped", "stopped, as the spec requests")
      : notReady("deploying", "Stopping", "being stopped");
  }
  const failing = findRepeatedFailure(findings);
  if (failing) return notReady(serves ? "degraded" : "failed", failing.reason, failing.message);
  // While a source is being resolved, a quarantine is not reported, because Berth does not know if the source resolves
  // to the version that failed.
  if (memory.quarantine && !findings.held) {
    const { revertedTo, message } = memory.quarantine;
    return notReady(
      serves ? "degraded" : "deploying",
      "Reverted",
      `reverted to revision ${revertedTo}: ${message}`,
    );
  }
  if (findings.plan?.driftLoop)
    return notReady(
      serves ? "degraded" : "failed",
      "DriftLoop",
      `Berth has stopped correcting "${findings.plan.driftLoop}"`,
    );
  if (findings.held) {
    const { reason, message } = findings.progress ?? findings.held;
    return notReady(serves ? "building" : "pending", reason, message);
  }
  const wasStable = memory.stable?.hash === desired.hash;
  if (isComplete(desired, findings)) {
    const problem = findRoutingProblem(findings);
    if (problem) return notReady("degraded", problem.reason, problem.message);
    if (desired.app.oneShot)
      return {
        phase: "completed",
        ready: "True",
        reason: "Completed",
        message: "the run has ended with exit code 0",
      };
    const count = desired.containers.length;
    const healthy = count === 1 ? "running and healthy" : `${count} of ${count} replicas healthy`;
    const draining = isDraining(desired, findings)
      ? "; the previous version finishes its requests"
      : "";
    const pin = memory.image;
    const isEngineOnly = pin?.isEngineOnly === true && pin.id === desired.imageId;
    const origin = isEngineOnly ? `; ${describeEngineOnlyImage(pin.reference)}` : "";
    return {
      phase: "running",
      ready: "True",
      reason: "Ready",
      message: `${healthy}${draining}${origin}`,
    };
  }
  const reason = findings.blocked ?? findings.progress ?? findWaitReason(findings, desired);
  if (findings.blocked && findings.containers.length === 0)
    return notReady("pending", reason.reason, reason.message);
  if (buildingReasons.has(reason.reason))
    return notReady("building", reason.reason, reason.message);
  return notReady(wasStable ? "degraded" : "deploying", reason.reason, reason.message);
}

/**
 * Returns why a version that was stable earlier does not keep running, although Berth keeps restarting it; null if the
 * version keeps running.
 */
function findRepeatedFailure({ plan, health, desired, memory, resource }: FindingsOfFailure) {
  const [container] = plan?.failing ?? [];
  if (!container || !desired || memory.stalled) return null;
  const what =
    container.state === "running"
      ? `the container is not healthy: ${health.get(container.id)?.message ?? "not probed yet"}`
      : describeContainerState(container);
  return {
    reason: "CrashLoop",
    message: `${what}; this has happened repeatedly. This version worked before, so Berth keeps restarting it, with up to 5 minutes in between. To find the cause: berth logs ${resource.metadata.name}`,
  };
}

type FindingsOfFailure = Pick<AppFindings, "plan" | "health" | "desired" | "memory" | "resource">;

const buildingReasons: ReadonlySet<string> = new Set([
  "BuildQueued",
  "Building",
  "ResolvingSource",
]);

/** Returns what the first container that is not healthy waits for. */
function findWaitReason(findings: AppFindings, desired: DesiredApp): Reason {
  const foreign = findForeignSettings(findings);
  if (foreign) return foreign;
  for (const container of findings.containers) {
    if (getSpecHash(container) !== desired.hash) continue;
    if (container.state === "running") {
      if (desired.app.oneShot)
        return {
          reason: "RunningOnce",
          message: "the container is running; the app is Ready when it has ended with exit code 0",
        };
      const health = findings.health.get(container.id);
      if (health?.healthy !== true)
        return {
          reason: "WaitingForHealth",
          message: `waiting to become healthy: ${health?.message ?? "not probed yet"}`,
        };
    } else {
      return { reason: "ContainerNotRunning", message: describeContainerState(container) };
    }
  }
  if (isObserved(findings.memory, desired.hash) && findings.memory.window?.since != null) {
    const kept =
      desired.strategy.type === "rolling" ? "; the previous version is kept until then" : "";
    const seconds = desired.app.rollout.observeMs / 1_000;
    return {
      reason: "Observing",
      message: `the new version serves, and becomes Ready after ${seconds} s without a failure (rollout.observe)${kept}`,
    };
  }
  if (isVersionReady(desired, findings.containers, findings.health))
    return {
      reason: "Switching",
      message: "the new version is healthy; the app's requests are about to be sent to it",
    };
  return {
    reason: "Deploying",
    message: `${findings.containers.length} of ${desired.containers.length} containers exist`,
  };
}

/** Describes the state of a container for a message, such as "the container ended with exit code 1". */
export function describeContainerState(container: ObservedContainer): string {
  if (container.error !== null && container.error !== "")
    return `the container cannot be started: ${container.error}`;
  if (container.state === "created") return "the container has not been started yet";
  const code = container.exitCode === null ? "" : ` with exit code ${container.exitCode}`;
  const memory = container.oomKilled ? " (it ran out of memory: raise resources.memory)" : "";
  if (container.state === "exited") return `the container ended${code}${memory}`;
  return `the container is ${container.state}${code}${memory}`;
}

function setProgressingCondition(
  findings: AppFindings,
  verdict: ReadyVerdict,
  set: SetCondition,
): void {
  const strategy = findings.plan?.strategy;
  if (findings.unknown !== null)
    set("Progressing", "Unknown", "EngineUnreachable", findings.unknown);
  else if (verdict.ready === "True") {
    set(
      "Progressing",
      "False",
      "Complete",
      strategy
        ? `complete; next rollout: ${strategy.type}, because ${strategy.message}`
        : "complete",
    );
  } else if (
    findings.memory.stalled ||
    findings.refused ||
    findings.outage ||
    findRepeatedFailure(findings)
  )
    set("Progressing", "False", verdict.reason, verdict.message);
  else if (verdict.phase === "stopped" || verdict.reason === "Suspended")
    set("Progressing", "False", verdict.reason, verdict.message);
  else if (verdict.reason === "Reverted" && isRevertComplete(findings))
    set("Progressing", "False", verdict.reason, verdict.message);
  else if (findings.blocked)
    set("Progressing", "False", findings.blocked.reason, findings.blocked.message);
  else
    set(
      "Progressing",
      "True",
      findings.progress?.reason ?? verdict.reason,
      findings.progress?.message ?? verdict.message,
    );
}

function isRevertComplete(findings: AppFindings): boolean {
  return findings.desired !== null && isComplete(findings.desired, findings);
}

function buildContainerStatus(
  findings: AppFindings,
  container: ObservedContainer,
): ContainerStatus {
  return {
    id: container.id,
    name: container.name,
    replica: getReplicaIndex(container),
    generation: Number(container.labels[labels.GENERATION] ?? "0"),
    role: getContainerRole(findings, container),
    state: container.state,
    healthy:
      container.state === "running" ? (findings.health.get(container.id)?.healthy ?? null) : null,
    exitCode: container.exitCode,
    startedAt: container.startedAt,
    image: container.image,
    imageId: container.imageId,
    address: getContainerAddress(findings, container),
  };
}

function getContainerAddress(
  { desired }: AppFindings,
  container: ObservedContainer,
): string | null {
  const target = desired?.isRouted ? getTarget(desired, container) : undefined;
  const port = desired?.app.port;
  const published = container.addresses.find((address) => address.containerPort === port);
  return target ?? published?.address ?? null;
}

/**
 * Returns the role of a container: active if it serves requests; otherwise candidate if it belongs to the
 * desired version, and draining if it belongs to another version.
 */
function getContainerRole(
  findings: AppFindings,
  container: ObservedContainer,
): ContainerStatus["role"] {
  const { desired } = findings;
  const isWanted = (candidate: ObservedContainer) => getSpecHash(candidate) === desired?.hash;
  if (desired?.isRouted) {
    if (isServing(desired, findings, container)) return "active";
    return isWanted(container) ? "candidate" : "draining";
  }
  const newOneServes = findings.containers.some(
    (candidate) => isWanted(candidate) && isHealthy(candidate, findings.health),
  );
  if (isWanted(container)) return isHealthy(container, findings.health) ? "active" : "candidate";
  return newOneServes || !isHealthy(container, findings.health) ? "draining" : "active";
}
