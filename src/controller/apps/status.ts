import { timestamp } from "../../base/clock.ts";
import type { Resource } from "../../resources/resource.ts";
import {
  type AppStatus,
  type Condition,
  type ConditionStatus,
  type ConditionType,
  type ContainerStatus,
  type Phase,
  type ReconcilerMemory,
  setCondition,
} from "../../resources/status.ts";
import * as labels from "../labels.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired.ts";
import { type ContainerHealth, hashOf, type Plan, replicaOf } from "./plan.ts";
import { recentRestarts } from "./restart-budget.ts";

export interface Reason {
  /** CamelCase. */
  readonly reason: string;
  readonly message: string;
}

/** Everything that one run of the reconciler found out, from which the status follows. */
export interface Findings {
  readonly resource: Resource<"App">;
  readonly nowMs: number;
  readonly memory: ReconcilerMemory;
  readonly containers: readonly ObservedContainer[];
  readonly health: ReadonlyMap<string, ContainerHealth>;
  /** Null where the spec could not be worked out, for the reason in `refused`. */
  readonly desired: DesiredApp | null;
  readonly plan: Plan | null;
  /** What keeps the spec from being taken up at all: a missing secret, a cycle of dependencies. */
  readonly refused: Reason | null;
  /** What is waited for before containers are made. */
  readonly blocked: Reason | null;
  /** The step under way. */
  readonly progress: Reason | null;
  /** Set when the engine could not be asked: nothing is known then. */
  readonly unknown: string | null;
  readonly revisions: AppStatus["revisions"];
  readonly nextRetryAtMs: number | null;
  readonly domain: string | null;
}

/** True when every replica of the wanted version is healthy and reachable, and nothing else is left. */
export function isComplete(
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  health: ReadonlyMap<string, ContainerHealth>,
): boolean {
  const ready = new Set(
    containers
      .filter((container) => hashOf(container) === desired.hash && isHealthy(container, health))
      // Off its network nobody reaches it, whatever its last probe said.
      .filter((container) => container.networks.includes(desired.network))
      .map((container) => replicaOf(container)),
  );
  return (
    ready.size === desired.containers.length && containers.length === desired.containers.length
  );
}

export function isHealthy(
  container: ObservedContainer,
  health: ReadonlyMap<string, ContainerHealth>,
): boolean {
  return container.state === "running" && health.get(container.id)?.healthy === true;
}

export function appStatus(findings: Findings): AppStatus {
  const { resource, memory, nowMs } = findings;
  const verdict = judge(findings);
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
  const available = findings.containers.filter((container) =>
    isHealthy(container, findings.health),
  ).length;
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
  setProgressing(findings, verdict, set);
  setRouted(findings, available, set);
  const loop = findings.plan?.driftLoop ?? null;
  set(
    "Drifted",
    loop === null ? null : "True",
    "DriftLoop",
    `"${loop}" was changed by hand three times in ten minutes, so Berth has stopped putting it right; find out what changes it, then run berth retry ${resource.metadata.name}`,
  );
  set(
    "Stalled",
    memory.stalled ? "True" : null,
    memory.stalled?.reason ?? "",
    memory.stalled?.message ?? "",
  );

  return {
    phase: verdict.phase,
    observedGeneration: resource.metadata.generation,
    conditions,
    revisions: findings.revisions,
    // What was there before the engine went out of sight is shown until it is seen again.
    containers:
      unknown !== null && findings.containers.length === 0
        ? (resource.status?.containers ?? [])
        : findings.containers
            .map((container) => containerStatus(findings, container))
            .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    url: unknown !== null ? (resource.status?.url ?? null) : urlOf(findings),
    nextRetryAt: findings.nextRetryAtMs === null ? null : timestamp(findings.nextRetryAtMs),
    restarts: findings.desired
      ? recentRestarts(memory.restarts, findings.desired.app.restart, nowMs).length
      : memory.restarts.length,
    memory,
  };
}

interface Verdict extends Reason {
  readonly phase: Phase;
  readonly ready: ConditionStatus;
}

const no = (phase: Phase, reason: string, message: string): Verdict => ({
  phase,
  ready: "False",
  reason,
  message,
});

/** The one place that decides whether an App is Ready, and what its phase is called. */
function judge(findings: Findings): Verdict {
  const { resource, desired, memory } = findings;
  const serves = findings.containers.some((container) => isHealthy(container, findings.health));
  if (findings.unknown !== null) {
    const phase = resource.metadata.deletionTimestamp === null ? "unknown" : "deleting";
    return { phase, ready: "Unknown", reason: "EngineUnreachable", message: findings.unknown };
  }
  if (resource.metadata.deletionTimestamp !== null)
    return no("deleting", "Deleting", "being deleted");
  if (memory.stalled)
    return no(serves ? "degraded" : "failed", memory.stalled.reason, memory.stalled.message);
  if (findings.refused)
    return no(serves ? "degraded" : "pending", findings.refused.reason, findings.refused.message);
  if (!desired) return no("pending", "Pending", "not looked at yet");
  if (desired.app.suspend) {
    return no(
      serves ? "running" : "stopped",
      "Suspended",
      "suspend is true: Berth leaves the app as it is",
    );
  }
  if (!desired.app.running) {
    const up = findings.containers.filter((container) => container.state === "running").length;
    return up === 0
      ? no("stopped", "Stopped", "stopped, as the spec wants it")
      : no("deploying", "Stopping", "being stopped");
  }
  if (memory.quarantine) {
    const { revertedTo, message } = memory.quarantine;
    return no(
      serves ? "degraded" : "deploying",
      "Reverted",
      `reverted to revision ${revertedTo}: ${message}`,
    );
  }
  if (findings.plan?.driftLoop)
    return no(
      serves ? "degraded" : "failed",
      "DriftLoop",
      `Berth has stopped correcting "${findings.plan.driftLoop}"`,
    );
  if (isComplete(desired, findings.containers, findings.health)) {
    const count = desired.containers.length;
    return {
      phase: "running",
      ready: "True",
      reason: "Ready",
      message: count === 1 ? "running and healthy" : `${count} of ${count} replicas healthy`,
    };
  }
  const wasStable = memory.stable?.hash === desired.hash;
  const reason = findings.blocked ?? findings.progress ?? waitingFor(findings, desired);
  if (findings.blocked && findings.containers.length === 0)
    return no("pending", reason.reason, reason.message);
  return no(wasStable ? "degraded" : "deploying", reason.reason, reason.message);
}

/** What the first container that is not healthy is waiting for. */
function waitingFor(findings: Findings, desired: DesiredApp): Reason {
  for (const container of findings.containers) {
    if (hashOf(container) !== desired.hash) continue;
    if (container.state === "running") {
      const health = findings.health.get(container.id);
      if (health?.healthy !== true)
        return {
          reason: "WaitingForHealth",
          message: `waiting to become healthy: ${health?.message ?? "not probed yet"}`,
        };
    } else {
      return { reason: "ContainerNotRunning", message: describeEnd(container) };
    }
  }
  return {
    reason: "Deploying",
    message: `${findings.containers.length} of ${desired.containers.length} containers are there`,
  };
}

/** "the container ended with code 1 (out of memory)". */
export function describeEnd(container: ObservedContainer): string {
  if (container.error !== null && container.error !== "")
    return `the container cannot be started: ${container.error}`;
  if (container.state === "created") return "the container has not been started yet";
  const code = container.exitCode === null ? "" : ` with exit code ${container.exitCode}`;
  const memory = container.oomKilled ? " (it ran out of memory: raise resources.memory)" : "";
  if (container.state === "exited") return `the container ended${code}${memory}`;
  return `the container is ${container.state}${code}${memory}`;
}

type SetCondition = (
  type: ConditionType,
  status: ConditionStatus | null,
  reason: string,
  message: string,
) => void;

function setProgressing(findings: Findings, verdict: Verdict, set: SetCondition): void {
  const strategy = findings.plan?.strategy;
  if (findings.unknown !== null)
    set("Progressing", "Unknown", "EngineUnreachable", findings.unknown);
  else if (verdict.phase === "running" && verdict.ready === "True") {
    set(
      "Progressing",
      "False",
      "Complete",
      strategy
        ? `complete; next rollout: ${strategy.type}, because ${strategy.message}`
        : "complete",
    );
  } else if (findings.memory.stalled || findings.refused)
    set("Progressing", "False", verdict.reason, verdict.message);
  else if (verdict.phase === "stopped" || verdict.reason === "Suspended")
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

function setRouted(findings: Findings, available: number, set: SetCondition): void {
  const port = findings.desired?.app.port;
  if (findings.desired !== null && port === undefined) set("Routed", null, "", "");
  else if (findings.unknown !== null)
    set("Routed", "Unknown", "EngineUnreachable", findings.unknown);
  else if (available > 0) {
    set(
      "Routed",
      "True",
      "PublishedOnLoopback",
      `there is no ingress: the app is published on a loopback port of this machine${findings.domain === null ? "" : `, and ${findings.domain} leads nowhere yet`}`,
    );
  } else set("Routed", "False", "NoHealthyContainer", "no container is healthy");
}

function containerStatus(findings: Findings, container: ObservedContainer): ContainerStatus {
  const port = findings.desired?.app.port;
  return {
    id: container.id,
    name: container.name,
    replica: replicaOf(container),
    generation: Number(container.labels[labels.GENERATION] ?? "0"),
    role: roleOf(findings, container),
    state: container.state,
    healthy:
      container.state === "running" ? (findings.health.get(container.id)?.healthy ?? null) : null,
    exitCode: container.exitCode,
    startedAt: container.startedAt,
    image: container.image,
    address: container.addresses.find((address) => address.containerPort === port)?.address ?? null,
  };
}

/** What serves is active; of the rest, what is wanted is a candidate and what is not is on its way out. */
function roleOf(findings: Findings, container: ObservedContainer): ContainerStatus["role"] {
  const isWanted = (candidate: ObservedContainer) => hashOf(candidate) === findings.desired?.hash;
  const newOneServes = findings.containers.some(
    (candidate) => isWanted(candidate) && isHealthy(candidate, findings.health),
  );
  if (isWanted(container)) return isHealthy(container, findings.health) ? "active" : "candidate";
  return newOneServes || !isHealthy(container, findings.health) ? "draining" : "active";
}

function urlOf(findings: Findings): string | null {
  const port = findings.desired?.app.port;
  if (port === undefined) return null;
  const ready = findings.containers.toSorted((a, b) => replicaOf(a) - replicaOf(b));
  for (const container of ready) {
    const address = container.addresses.find(
      (candidate) => candidate.containerPort === port,
    )?.address;
    if (container.state === "running" && address !== undefined) return `http://${address}`;
  }
  return null;
}
