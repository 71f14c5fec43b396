import type { AppSpec } from "../../resources/app-spec.ts";
import type { ImagePin, ReconcileState } from "../../resources/app-status.ts";
import { findDependencyCycle } from "../../resources/dependency-cycle.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Revision } from "../../store/store.ts";
import type { SourceState } from "../builds/port.ts";
import type { Ingress } from "../ingress/port.ts";
import {
  type ContainerListenerStatus,
  defaultContainerListener,
} from "../models/container-listener.ts";
import type { Reason } from "../reason.ts";
import {
  findMissingSecret,
  findPendingDependency,
  quarantineDigest,
  revealReference,
} from "./app-inputs.ts";
import { findRefusedMount } from "./check-mounts.ts";
import { buildDesiredApp, type DesiredApp } from "./desired-app.ts";
import type { StoreReader } from "./dry-run-store.ts";
import { getOwnReference, type VersionImage } from "./image-pin.ts";
import { findPendingModel } from "./model-inputs.ts";

/** The result of resolving an App's spec with everything that it refers to. */
export interface ResolvedApp {
  /** The desired version of the App; null if the spec is refused, or if its source has never been resolved. */
  readonly desired: DesiredApp | null;
  /** The spec of `desired`: the stored one, or that of an earlier revision. */
  readonly spec: AppSpec;
  /** The earlier revision that runs instead of the stored spec; null if the stored spec runs. */
  readonly revision: Revision | null;
  readonly refused: Reason | null;
  readonly blocked: Reason | null;
  /**
   * The reason why an earlier revision runs while the spec's own source is unresolved; null if no earlier revision
   * runs.
   */
  readonly held: Reason | null;
  /** The quarantine of the version, if it is still valid; null if the version may be tried again. */
  readonly quarantine: ReconcileState["quarantine"];
  /** The image of the stored spec, even if an earlier revision runs; null while the spec's source is unresolved. */
  readonly ownImage: VersionImage | null;
}

export type LoopbackPortLookup = (app: string, replica: number, containerPort: number) => number;
export type AddressPairLookup = (app: string, replica: number) => number | undefined;

export interface ResolveAppInput {
  readonly store: StoreReader;
  readonly resource: Resource<"App">;
  readonly memory: ReconcileState;
  readonly ingress: Pick<Ingress, "mode" | "reachability">;
  /** The state of the spec's source; null for a spec that names an image. */
  readonly source: SourceState | null;
  /** The image that the spec's own reference is pinned to; null if it has to be resolved. */
  readonly pin: ImagePin | null;
  /** The hash of the version that gets the App's requests or, without a route, is Ready; null if there is none. */
  readonly serving: string | null;
  /** Returns the loopback port that a replica has leased. A missing port is leased now, except in a dry run. */
  readonly getLoopbackPort: LoopbackPortLookup;
  /**
   * Returns the pair of addresses that is reserved for a replica. A missing pair is reserved now, except in a dry run.
   */
  readonly getAddressPair: AddressPairLookup;
  /**
   * The listener through which containers reach the models. Without it, containers get the default port, which is
   * assumed to be open.
   */
  readonly containerListener?: ContainerListenerStatus | undefined;
  /** The IPv4 range from which the networks of stacks get their subnets; default: NETWORK_POOL. */
  readonly networkPool?: string | undefined;
  /** The data directory, with the files and folders of Apps; undefined if the engine cannot mount it. */
  readonly dataDir?: string | undefined;
}

export function resolveApp(input: ResolveAppInput): ResolvedApp {
  const { store, resource, memory, source } = input;
  const { spec } = resource;
  const { quarantine } = memory;
  const unresolved = {
    desired: null,
    spec,
    revision: null,
    blocked: null,
    held: null,
    quarantine,
    ownImage: null,
  };
  const refused = findRefusal(store, resource, input.dataDir);
  if (refused) return { ...unresolved, refused };
  const blocked =
    findRefusedMount(store, spec) ??
    findPendingDependency(store, spec) ??
    findPendingModel(store, spec, getContainerListener(input)) ??
    null;
  const reference = getOwnReference(input);
  if (reference === null) {
    const held = explainPendingSource(source);
    const kept = findHeldRevision(input);
    if (!kept) return { ...unresolved, refused: null, blocked: held };
    const older = buildHeldSpec(kept.spec, spec);
    const desired = buildVersion(input, older, getRevisionImage(kept));
    return { ...unresolved, desired, spec: older, revision: kept, refused: null, blocked, held };
  }
  const { id = null, digest = null } = input.pin ?? {};
  const image = { reference, id, digest };
  const own = buildVersion(input, spec, image);
  const asked = {
    desired: own,
    spec,
    revision: null,
    refused: null,
    blocked,
    held: null,
    ownImage: image,
  };
  if (quarantine === null || quarantine.inputs !== quarantineDigest(store, own, quarantine.reason))
    return { ...asked, quarantine: null };
  const kept = store.revisions.get(resource.metadata.name, quarantine.revertedTo);
  if (!kept || findMissingSecret(store, kept.spec)) return { ...asked, quarantine: null };
  const older = buildHeldSpec(kept.spec, spec);
  const desired = buildVersion(input, older, getRevisionImage(kept));
  return { ...asked, desired, spec: older, revision: kept, quarantine };
}

/**
 * Returns the spec of an earlier revision that runs now, with `running`, `suspend` and `replicas` of the stored spec.
 */
function buildHeldSpec(kept: AppSpec, asked: AppSpec): AppSpec {
  return {
    ...kept,
    ...(asked.running === undefined ? {} : { running: asked.running }),
    ...(asked.suspend === undefined ? {} : { suspend: asked.suspend }),
    ...(asked.replicas === undefined ? {} : { replicas: asked.replicas }),
  };
}

/**
 * Finds the revision that runs while the source is unresolved: the serving revision, otherwise the last one that was
 * stable.
 */
function findHeldRevision(input: ResolveAppInput): Revision | undefined {
  const { store, resource, memory } = input;
  const { name } = resource.metadata;
  const isWhole = (kept: Revision) =>
    kept.image !== null && findMissingSecret(store, kept.spec) === undefined;
  const serving = findServingRevision(input);
  if (serving && isWhole(serving)) return serving;
  const known = memory.good === null ? undefined : store.revisions.get(name, memory.good);
  const kept = known ?? store.revisions.list(name).find(({ state }) => state === "stable");
  return kept && isWhole(kept) ? kept : undefined;
}

/** Returns the kept revision whose containers serve; undefined if there is none. */
export function findServingRevision(input: ResolveAppInput): Revision | undefined {
  const { store, resource, serving } = input;
  if (serving === null) return undefined;
  return store.revisions
    .list(resource.metadata.name)
    .find(
      (kept) =>
        buildKeptVersion(input, kept, buildHeldSpec(kept.spec, resource.spec))?.hash === serving,
    );
}

/** Returns the version of a kept revision; undefined if its image or a Secret is unknown. */
export function buildKeptVersion(
  input: ResolveAppInput,
  kept: Revision,
  spec: AppSpec,
): DesiredApp | undefined {
  const image = getRevisionImage(kept);
  if (image.reference === "" || findMissingSecret(input.store, kept.spec)) return undefined;
  return buildVersion(input, spec, image);
}

function getRevisionImage({ spec, image, imageId, digest }: Revision): VersionImage {
  return { reference: spec.image ?? image ?? "", id: imageId, digest };
}

function explainPendingSource(source: SourceState | null): Reason {
  if (source?.type === "failed") return { reason: source.reason, message: source.message };
  const message = source?.type === "resolving" ? source.message : "the source is being resolved";
  return { reason: "ResolvingSource", message };
}

function findRefusal(
  store: StoreReader,
  resource: Resource<"App">,
  dataDir: string | undefined,
): Reason | null {
  const { spec, metadata } = resource;
  if (spec.image === undefined && spec.source === undefined)
    return {
      reason: "NoImage",
      message: `the app has no image and no source yet: berth deploy ${metadata.name} --image IMAGE, or deploy a folder or a repository`,
    };
  const cycle = findDependencyCycle(
    metadata.name,
    spec.dependsOn ?? [],
    (app) => store.get("App", app)?.spec.dependsOn ?? [],
  );
  if (cycle)
    return {
      reason: "DependencyCycle",
      message: `dependsOn has a cycle: ${cycle.join(" -> ")}`,
    };
  for (const field of ["files", "folders"] as const)
    if ((spec[field] ?? []).length > 0 && dataDir === undefined)
      return {
        reason: "EngineElsewhere",
        message: `${field} needs an engine on this machine, because the containers mount Berth's data directory: use the image or a volume`,
      };
  return findMissingSecret(store, spec) ?? null;
}

function buildVersion(input: ResolveAppInput, spec: AppSpec, image: VersionImage): DesiredApp {
  const { store, resource, ingress, getLoopbackPort, getAddressPair } = input;
  const { name } = resource.metadata;
  return buildDesiredApp({
    instance: store.instanceId,
    resource,
    spec,
    image,
    ingress,
    revealSecret: (reference) => revealReference(store, reference),
    loopbackPort: (replica, port) => getLoopbackPort(name, replica, port),
    addressPair: (replica) => getAddressPair(name, replica),
    dataDir: input.dataDir,
    ...(input.networkPool !== undefined && { networkPool: input.networkPool }),
    modelsPort: getContainerListener(input).port,
  });
}

const getContainerListener = ({ containerListener }: ResolveAppInput): ContainerListenerStatus =>
  containerListener ?? defaultContainerListener;
