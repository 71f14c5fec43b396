import type { AppSpec } from "../../resources/app.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ReconcilerMemory } from "../../resources/status.ts";
import { type DesiredApp, desiredApp } from "./desired.ts";
import {
  dependencyCycle,
  missingSecret,
  pendingDependency,
  quarantineDigest,
  revealReference,
} from "./inputs.ts";
import type { Lookup } from "./planned.ts";
import type { Reason } from "./status.ts";

/** What an App's spec comes to, with everything it refers to looked up. */
export interface Resolved {
  /** Null where the spec is refused. */
  readonly desired: DesiredApp | null;
  /** The spec that `desired` was made from: the stored one, or that of the revision held after a revert. */
  readonly spec: AppSpec;
  readonly refused: Reason | null;
  readonly blocked: Reason | null;
  /** The quarantine still in force; null once the version is worth another try. */
  readonly quarantine: ReconcilerMemory["quarantine"];
}

export type PortOf = (app: string, replica: number, containerPort: number) => number;

export function resolveApp(
  store: Lookup,
  resource: Resource<"App">,
  memory: ReconcilerMemory,
  /** The loopback port of a replica; a dry run gives another one, which leases none. */
  portOf: PortOf = (app, replica, port) => store.ports.lease(app, replica, port),
): Resolved {
  const { spec } = resource;
  const refused = refusal(store, resource);
  if (refused)
    return { desired: null, spec, refused, blocked: null, quarantine: memory.quarantine };
  const own = build(store, resource, spec, portOf);
  const { quarantine } = memory;
  const blocked = pendingDependency(store, spec) ?? null;
  if (
    quarantine === null ||
    quarantine.inputs !== quarantineDigest(store, own, quarantine.reason)
  ) {
    return { desired: own, spec, refused: null, blocked, quarantine: null };
  }
  const kept = store.revisions.get(resource.metadata.name, quarantine.revertedTo);
  if (!kept || missingSecret(store, kept.spec)) {
    return { desired: own, spec, refused: null, blocked, quarantine: null };
  }
  // A stop, a suspension or a change of replicas is obeyed also while an older version is held.
  const held: AppSpec = {
    ...kept.spec,
    ...(spec.running === undefined ? {} : { running: spec.running }),
    ...(spec.suspend === undefined ? {} : { suspend: spec.suspend }),
    ...(spec.replicas === undefined ? {} : { replicas: spec.replicas }),
  };
  const desired = build(store, resource, held, portOf);
  return { desired, spec: held, refused: null, blocked, quarantine };
}

function refusal(store: Lookup, resource: Resource<"App">): Reason | null {
  const { spec, metadata } = resource;
  if (spec.source !== undefined) {
    return {
      reason: "BuildsNotAvailable",
      message: "apps are not built from source in this version; give an image",
    };
  }
  if (spec.image === undefined)
    return { reason: "NoImage", message: "the spec has no image; set spec.image" };
  const cycle = dependencyCycle(store, metadata.name, spec);
  if (cycle)
    return {
      reason: "DependencyCycle",
      message: `dependsOn leads in a circle: ${cycle.join(" -> ")}`,
    };
  return missingSecret(store, spec) ?? null;
}

function build(
  store: Lookup,
  resource: Resource<"App">,
  spec: AppSpec,
  portOf: PortOf,
): DesiredApp {
  const name = resource.metadata.name;
  return desiredApp({
    instance: store.instanceId,
    resource,
    spec,
    image: spec.image ?? "",
    reveal: (reference) => revealReference(store, reference),
    loopbackPort: (replica) =>
      spec.port === undefined ? undefined : portOf(name, replica, spec.port),
  });
}
