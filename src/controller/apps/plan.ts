import * as labels from "../labels.ts";
import type { ContainerSpec, Labels, ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired.ts";
import { type Drifts, driftLoop } from "./drift-history.ts";
import { decideRestart, type RestartPolicy, type Restarts } from "./restart-budget.ts";
import { chooseStrategy, type Strategy } from "./strategy.ts";

/**
 * plan(desired, observed) decides everything that is done to an App, and does nothing: the
 * reconciler executes it, a dry run prints it, tests ask it. It holds no clock, no engine, no store.
 */

export interface ObservedApp {
  readonly nowMs: number;
  readonly containers: readonly ObservedContainer[];
  /** By container id; absent where nothing is known yet. */
  readonly health: ReadonlyMap<string, ContainerHealth>;
  /** Whether the engine holds the image; unknown where nobody has asked. */
  readonly image: "present" | "absent" | "unknown";
  readonly restarts: Restarts;
  /** The version has just been taken up, or started again by a person: containers that ended before do not count as restarts. */
  readonly isFresh: boolean;
  readonly drifts: Drifts;
  /** How many replicas of the wanted version were Ready: of these, a missing one was taken away by hand. */
  readonly stableReplicas: number;
  /** What holds the making of new containers back; null where nothing does. */
  readonly blockedBy: string | null;
}

export interface ContainerHealth {
  /** Null until the first probe has answered. */
  readonly healthy: boolean | null;
  /** It answered well for long enough, then failed too often in a row: a restart is due. */
  readonly restartDue: boolean;
  readonly message: string;
}

/** Each is one engine call. `cause` tells a person why. */
export type Operation = { readonly cause: string } & (
  | { readonly type: "pullImage"; readonly image: string }
  | { readonly type: "ensureNetwork"; readonly network: string; readonly labels: Labels }
  | { readonly type: "ensureVolume"; readonly volume: string; readonly labels: Labels }
  | { readonly type: "createContainer"; readonly spec: ContainerSpec }
  | {
      readonly type: "startContainer";
      readonly name: string;
      readonly id: string | null;
      /** Whose budget the start counts against; null where it is no restart. */
      readonly restart: string | null;
    }
  | {
      readonly type: "stopContainer";
      readonly name: string;
      readonly id: string;
      readonly graceMs: number;
    }
  | { readonly type: "removeContainer"; readonly name: string; readonly id: string }
  | {
      readonly type: "renameContainer";
      readonly name: string;
      readonly id: string;
      readonly from: string;
    }
  | {
      readonly type: "connectNetwork";
      readonly name: string;
      readonly id: string;
      readonly network: string;
      readonly aliases: readonly string[];
    }
);

export interface Plan {
  readonly operations: readonly Operation[];
  readonly strategy: Strategy;
  /** Fields that somebody changed by hand and that this plan puts right. */
  readonly corrections: readonly string[];
  /** The field over which Berth stopped fighting; null where there is none. */
  readonly driftLoop: string | null;
  /** Containers that ended and may not be started again. */
  readonly exhausted: readonly ObservedContainer[];
  /** When a container that ended may be started again; null where none waits. */
  readonly restartAtMs: number | null;
}

export function planApp(desired: DesiredApp, observed: ObservedApp): Plan {
  const draft = new Draft(desired, observed);
  if (desired.app.suspend) return draft.finish();
  if (!desired.app.running) planStopped(draft);
  else planRunning(draft);
  return draft.finish();
}

/** Takes every container away; the deletion of an App, and what is left of one that is gone. */
export function planRemoval(
  containers: readonly ObservedContainer[],
  graceMs: number,
  cause: string,
): Operation[] {
  return containers.flatMap((container) => removal(container, graceMs, cause));
}

class Draft {
  readonly desired: DesiredApp;
  readonly observed: ObservedApp;
  readonly operations: Operation[] = [];
  readonly corrections = new Set<string>();
  readonly exhausted: ObservedContainer[] = [];
  restartAtMs: number | null = null;
  driftLoop: string | null = null;

  constructor(desired: DesiredApp, observed: ObservedApp) {
    this.desired = desired;
    this.observed = observed;
  }

  /**
   * True where the field of this replica may be corrected (again); notes either the correction or
   * the loop. By replica: who takes five away one after the other does not fight with Berth.
   */
  mayCorrect(what: string, replica: number): boolean {
    const field = replica === 0 ? what : `${what} of replica ${replica}`;
    const loop = driftLoop(this.observed.drifts, [field], this.observed.nowMs);
    if (loop !== undefined) {
      this.driftLoop = loop;
      return false;
    }
    this.corrections.add(field);
    return true;
  }

  finish(): Plan {
    return {
      operations: this.operations,
      strategy: chooseStrategy(this.desired.app),
      corrections: [...this.corrections],
      driftLoop: this.driftLoop,
      exhausted: this.exhausted,
      restartAtMs: this.restartAtMs,
    };
  }
}

/** A stopped App keeps the containers of its version, so that a start is quick, and no others. */
function planStopped(draft: Draft): void {
  const { desired, observed } = draft;
  for (const container of observed.containers) {
    if (hashOf(container) !== desired.hash) {
      draft.operations.push(
        ...removal(container, desired.app.stopGraceMs, "left from another version"),
      );
    } else if (isUp(container)) {
      draft.operations.push(stop(container, desired.app.stopGraceMs, "the app is to be stopped"));
    }
  }
}

function planRunning(draft: Draft): void {
  const { desired, observed } = draft;
  const current = observed.containers.filter((container) => hashOf(container) === desired.hash);
  const old = observed.containers.filter((container) => hashOf(container) !== desired.hash);
  const kept = new Map<number, ObservedContainer>();
  const surplus: ObservedContainer[] = [];
  for (const container of current) {
    const replica = replicaOf(container);
    if (replica < desired.containers.length && !kept.has(replica)) kept.set(replica, container);
    else surplus.push(container);
  }

  const missing = desired.containers.filter((_, replica) => !kept.has(replica));
  const indexOf = (spec: ContainerSpec) => desired.containers.indexOf(spec);
  const isTakenAway = (spec: ContainerSpec) => indexOf(spec) < observed.stableReplicas;
  const creations = missing.filter(
    (spec) => !isTakenAway(spec) || draft.mayCorrect("container", indexOf(spec)),
  );

  // The old version stays up until nothing but its own stopping stands in the way of the new one.
  const isBlocked = creations.length > 0 && observed.blockedBy !== null;
  const needsPull = creations.length > 0 && !isBlocked && observed.image === "absent";
  if (needsPull) {
    draft.operations.push({
      type: "pullImage",
      image: desired.image,
      cause: "the engine does not hold the image",
    });
  }
  if (isBlocked || needsPull) {
    if (old.length === 0) planContainers(draft, kept);
    else for (const container of old) if (hasEnded(container)) planOldRestart(draft, container);
    return;
  }

  for (const container of old) {
    draft.operations.push(
      ...removal(
        container,
        desired.app.stopGraceMs,
        `replaced by generation ${desired.generation}`,
      ),
    );
  }
  for (const container of surplus) {
    draft.operations.push(
      ...removal(container, desired.app.stopGraceMs, `${desired.containers.length} wanted`),
    );
  }
  planContainers(draft, kept);
  const cause = creations.some(isTakenAway) ? "it was taken away" : "it is missing";
  planCreations(draft, creations, cause);
}

function planCreations(draft: Draft, creations: readonly ContainerSpec[], cause: string): void {
  if (creations.length === 0) return;
  const { desired, operations } = draft;
  operations.push({
    type: "ensureNetwork",
    network: desired.network,
    labels: desired.networkLabels,
    cause: "the app's network",
  });
  for (const volume of desired.volumes) {
    operations.push({
      type: "ensureVolume",
      volume: volume.name,
      labels: volume.labels,
      cause: "the app's data",
    });
  }
  for (const spec of creations) {
    operations.push({ type: "createContainer", spec, cause });
    operations.push({ type: "startContainer", name: spec.name, id: null, restart: null, cause });
  }
}

/** What the containers of the wanted version need, each by itself. */
function planContainers(draft: Draft, kept: ReadonlyMap<number, ObservedContainer>): void {
  for (const [replica, container] of kept) {
    const spec = draft.desired.containers[replica];
    if (!spec) continue;
    if (!planReplacement(draft, container, spec)) planOne(draft, container, spec);
  }
}

/** Things that no call can change on a container that is there: it is made anew. */
function planReplacement(draft: Draft, container: ObservedContainer, spec: ContainerSpec): boolean {
  const { desired } = draft;
  const moved = container.labels[labels.LOOPBACK_PORT] !== spec.labels[labels.LOOPBACK_PORT];
  const edited =
    container.memoryBytes !== (spec.memoryBytes ?? null) ||
    container.nanoCpus !== (spec.nanoCpus ?? null);
  if (container.state === "removing") return true;
  if (
    !moved &&
    !(edited && draft.mayCorrect("resources", replicaOf(container))) &&
    container.state !== "dead"
  )
    return false;
  const cause = moved
    ? "its port was taken"
    : edited
      ? "its limits were changed by hand"
      : "the engine gave it up";
  draft.operations.push(...removal(container, desired.app.stopGraceMs, cause));
  planCreations(draft, [spec], cause);
  return true;
}

function planOne(draft: Draft, container: ObservedContainer, spec: ContainerSpec): void {
  const { desired, observed, operations } = draft;
  const replica = replicaOf(container);
  if (container.name !== spec.name && draft.mayCorrect("name", replica)) {
    operations.push({
      type: "renameContainer",
      id: container.id,
      name: spec.name,
      from: container.name,
      cause: "it was renamed by hand",
    });
  }
  if (!container.networks.includes(desired.network) && draft.mayCorrect("network", replica)) {
    operations.push({
      type: "connectNetwork",
      id: container.id,
      name: spec.name,
      network: desired.network,
      aliases: spec.aliases,
      cause: "it was disconnected by hand",
    });
  }
  if (container.state === "created" && container.error === null) {
    operations.push({
      type: "startContainer",
      id: container.id,
      name: spec.name,
      restart: null,
      cause: "it was made but not started",
    });
  } else if (container.state === "paused") {
    if (draft.mayCorrect("paused", replica))
      operations.push(stop(container, desired.app.stopGraceMs, "it was paused by hand"));
  } else if (container.state === "running") {
    if (observed.health.get(container.id)?.restartDue) planRestart(draft, container, true);
  } else if (container.state !== "restarting") {
    planRestart(draft, container, false);
  }
}

function planRestart(
  draft: Draft,
  container: ObservedContainer,
  isRunning: boolean,
  policy: RestartPolicy = draft.desired.app.restart,
): void {
  const { desired, observed, operations } = draft;
  if (observed.isFresh && !isRunning) {
    operations.push({
      type: "startContainer",
      id: container.id,
      name: container.name,
      restart: null,
      cause: "the app is to run",
    });
    return;
  }
  const budget = budgetOf(container);
  const decision = decideRestart(observed.restarts, budget, policy, observed.nowMs);
  if (decision.type === "exhausted") {
    draft.exhausted.push(container);
    return;
  }
  if (decision.type === "wait") {
    draft.restartAtMs = Math.min(draft.restartAtMs ?? Number.POSITIVE_INFINITY, decision.untilMs);
    return;
  }
  const cause = isRunning
    ? `unhealthy: ${observed.health.get(container.id)?.message ?? "the health check fails"}`
    : `it ended${container.exitCode === null ? "" : ` with code ${container.exitCode}`}`;
  // The restart is counted at the start, which follows a stop whether or not Berth lives to see it.
  if (isRunning) operations.push(stop(container, desired.app.stopGraceMs, cause));
  operations.push({
    type: "startContainer",
    id: container.id,
    name: container.name,
    restart: budget,
    cause,
  });
}

/**
 * A version that is on its way out is kept up within its budget, which waiting does not renew, since nobody
 * is told when it is used up: the wanted version does not fail for it.
 */
function planOldRestart(draft: Draft, container: ObservedContainer): void {
  const failed = draft.exhausted.length;
  const policy = { ...draft.desired.app.restart, intervalMs: Number.POSITIVE_INFINITY };
  planRestart(draft, container, false, policy);
  draft.exhausted.length = failed;
}

function removal(container: ObservedContainer, graceMs: number, cause: string): Operation[] {
  const remove: Operation = {
    type: "removeContainer",
    id: container.id,
    name: container.name,
    cause,
  };
  if (container.state === "removing") return [];
  return isUp(container) ? [stop(container, graceMs, cause), remove] : [remove];
}

function stop(container: ObservedContainer, graceMs: number, cause: string): Operation {
  return { type: "stopContainer", id: container.id, name: container.name, graceMs, cause };
}

/** Whose restarts count together: those of one replica of one version. */
function budgetOf(container: ObservedContainer): string {
  return `${hashOf(container)}/${replicaOf(container)}`;
}

export function hashOf(container: ObservedContainer): string {
  return container.labels[labels.SPEC_HASH] ?? "";
}

export function replicaOf(container: ObservedContainer): number {
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
