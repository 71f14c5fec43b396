import type { AppSpec } from "../../resources/app.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ReconcilerMemory } from "../../resources/status.ts";
import type { Revision } from "../../store/store.ts";
import type { SourceState } from "../builds/port.ts";
import type { Ingress } from "../ingress/port.ts";
import { type ModelDoor, usualDoor } from "../models/door.ts";
import type { Reason } from "../reason.ts";
import { type DesiredApp, desiredApp } from "./desired.ts";
import {
  dependencyCycle,
  missingSecret,
  pendingDependency,
  quarantineDigest,
  revealReference,
} from "./inputs.ts";
import { pendingModel } from "./model-inputs.ts";
import type { Lookup } from "./planned.ts";

/** What an App's spec comes to, with everything it refers to looked up. */
export interface Resolved {
  /** Null where the spec is refused, or its source has never been found. */
  readonly desired: DesiredApp | null;
  /** The spec that `desired` was made from: the stored one, or that of the revision that is held. */
  readonly spec: AppSpec;
  readonly refused: Reason | null;
  readonly blocked: Reason | null;
  /** Why an earlier revision is held while the spec's own source is looked for; null where it is not. */
  readonly held: Reason | null;
  /** The quarantine still in force; null once the version is worth another try. */
  readonly quarantine: ReconcilerMemory["quarantine"];
  /** The image of the spec itself, whatever is held; null while its source is not known. */
  readonly ownImage: string | null;
}

export type PortOf = (app: string, replica: number, containerPort: number) => number;

export interface ResolveInput {
  readonly store: Lookup;
  readonly resource: Resource<"App">;
  readonly memory: ReconcilerMemory;
  readonly ingress: Pick<Ingress, "mode" | "reach">;
  /** What the spec's source stands for; null for a spec that names an image. */
  readonly source: SourceState | null;
  /** The version (hash of containers) that serves now; null where none does. */
  readonly serving: string | null;
  /** The loopback port of a replica; a dry run gives one that leases none. */
  readonly portOf: PortOf;
  /** The way from containers to the models; without it, the usual one. */
  readonly modelDoor?: ModelDoor | undefined;
}

export function resolveApp(input: ResolveInput): Resolved {
  const { store, resource, memory, source } = input;
  const { spec } = resource;
  const { quarantine } = memory;
  const nothing = { desired: null, spec, blocked: null, held: null, quarantine, ownImage: null };
  const refused = refusal(store, resource);
  if (refused) return { ...nothing, refused };
  const blocked =
    pendingDependency(store, spec) ?? pendingModel(store, spec, doorOf(input)) ?? null;
  const image = spec.image ?? (source?.type === "resolved" ? source.image : null);
  if (image === null) {
    const held = sourceReason(source);
    const kept = heldRevision(input);
    if (!kept) return { ...nothing, refused: null, blocked: held };
    const older = asHeld(kept.spec, spec);
    const desired = build(input, older, kept.image ?? "");
    return { ...nothing, desired, spec: older, refused: null, blocked, held };
  }
  const own = build(input, spec, image);
  const asked = { desired: own, spec, refused: null, blocked, held: null, ownImage: image };
  if (quarantine === null || quarantine.inputs !== quarantineDigest(store, own, quarantine.reason))
    return { ...asked, quarantine: null };
  const kept = store.revisions.get(resource.metadata.name, quarantine.revertedTo);
  if (!kept || missingSecret(store, kept.spec)) return { ...asked, quarantine: null };
  const older = asHeld(kept.spec, spec);
  const desired = build(input, older, kept.spec.image ?? kept.image ?? "");
  return { ...asked, desired, spec: older, quarantine };
}

/** A stop, a suspension or a change of replicas is obeyed also while an older version is held. */
function asHeld(kept: AppSpec, asked: AppSpec): AppSpec {
  return {
    ...kept,
    ...(asked.running === undefined ? {} : { running: asked.running }),
    ...(asked.suspend === undefined ? {} : { suspend: asked.suspend }),
    ...(asked.replicas === undefined ? {} : { replicas: asked.replicas }),
  };
}

/** What goes on while the source of the spec is looked for: what serves, otherwise the last good revision. */
function heldRevision(input: ResolveInput): Revision | undefined {
  const { store, resource, memory } = input;
  const { name } = resource.metadata;
  const isWhole = (kept: Revision) =>
    kept.image !== null && missingSecret(store, kept.spec) === undefined;
  const serving = servingRevision(input);
  if (serving && isWhole(serving)) return serving;
  const known = memory.good === null ? undefined : store.revisions.get(name, memory.good);
  const kept = known ?? store.revisions.list(name).find(({ state }) => state === "stable");
  return kept && isWhole(kept) ? kept : undefined;
}

/** The kept revision whose containers have the version that serves; undefined where that is none of them. */
export function servingRevision(input: ResolveInput): Revision | undefined {
  const { store, resource, serving } = input;
  if (serving === null) return undefined;
  return store.revisions.list(resource.metadata.name).find(({ spec, image }) => {
    const known = spec.image ?? image;
    if (known === null || missingSecret(store, spec)) return false;
    return build(input, asHeld(spec, resource.spec), known).hash === serving;
  });
}

function sourceReason(source: SourceState | null): Reason {
  if (source?.type === "failed") return { reason: source.reason, message: source.message };
  const message = source?.type === "resolving" ? source.message : "the source is looked for";
  return { reason: "ResolvingSource", message };
}

function refusal(store: Lookup, resource: Resource<"App">): Reason | null {
  const { spec, metadata } = resource;
  if (spec.image === undefined && spec.source === undefined)
    return { reason: "NoImage", message: "the spec has no image; set spec.image or spec.source" };
  const cycle = dependencyCycle(store, metadata.name, spec);
  if (cycle)
    return {
      reason: "DependencyCycle",
      message: `dependsOn leads in a circle: ${cycle.join(" -> ")}`,
    };
  return missingSecret(store, spec) ?? null;
}

function build(input: ResolveInput, spec: AppSpec, image: string): DesiredApp {
  const { store, resource, ingress, portOf } = input;
  const { name } = resource.metadata;
  return desiredApp({
    instance: store.instanceId,
    resource,
    spec,
    image,
    ingress,
    reveal: (reference) => revealReference(store, reference),
    loopbackPort: (replica, port) => portOf(name, replica, port),
    modelsPort: doorOf(input).port,
  });
}

const doorOf = ({ modelDoor }: ResolveInput): ModelDoor => modelDoor ?? usualDoor;
