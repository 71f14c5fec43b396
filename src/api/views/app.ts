import { listDataPlaces, listOtherUsers } from "../../resources/app-data.ts";
import type { AppSource } from "../../resources/app-source-spec.ts";
import {
  type AppPhase,
  type AppStatus,
  type ContainerStatus,
  findCondition,
  type ImagePin,
} from "../../resources/app-status.ts";
import { getOwnDomain, listDomains } from "../../resources/domain-claims.ts";
import type { Resource } from "../../resources/resource.ts";
import { getStack } from "../../resources/stack.ts";
import type {
  AppDetails,
  AppItem,
  ContainerView,
  RevisionView,
} from "../../resources/wire/apps.ts";
import type { BuildRecord, EventRecord, Revision } from "../../store/store.ts";
import { buildView } from "./builds.ts";
import { conditionView } from "./conditions.ts";
import { eventView } from "./events.ts";
import { getDeclaringManager } from "./managers.ts";

/** Returns the list item of an App. Pure. */
export function appItem(app: Resource<"App">, baseDomain: string): AppItem {
  const { metadata, spec, status } = app;
  return {
    id: metadata.uid,
    name: metadata.name,
    stack: getStack(metadata) ?? null,
    status: getVisiblePhase(app),
    domain: getOwnDomain(metadata.name, spec, baseDomain) ?? "",
    image: spec.image ?? getRunningImage(status?.containers ?? []),
    source: describeSource(spec.source),
    domains: listDomains(metadata.name, spec, baseDomain),
    created_at: metadata.creationTimestamp,
    port: spec.port ?? null,
    url: status?.url ?? null,
    ready: isReady(app),
    generation: metadata.generation,
    observed_generation: status?.observedGeneration ?? 0,
    message: getStatusMessage(app),
    managed_by: getDeclaringManager(app),
  };
}

/** Returns the image of the serving containers. Containers that drain or are not healthy yet do not count. */
function getRunningImage(containers: readonly ContainerStatus[]): string {
  const serving = containers.find(({ role }) => role === "active");
  return (serving ?? containers[0])?.image ?? "";
}

export function appDetails(
  app: Resource<"App">,
  baseDomain: string,
  {
    events,
    build,
    apps,
  }: {
    readonly events: readonly EventRecord[];
    readonly build: BuildRecord | undefined;
    /** All apps of the server, some of which may share data with this one. */
    readonly apps: readonly Resource<"App">[];
  },
): AppDetails {
  const { metadata, spec, status } = app;
  return {
    ...appItem(app, baseDomain),
    spec,
    env: spec.env ?? {},
    labels: { ...metadata.labels },
    conditions: (status?.conditions ?? []).map((condition) => conditionView(condition)),
    containers: (status?.containers ?? []).map((container) => containerView(container)),
    revisions: {
      attempted: status?.revisions.attempted ?? null,
      applied: status?.revisions.applied ?? null,
      stable: status?.revisions.stable ?? null,
    },
    data: listDataPlaces(spec).map((place) => ({
      type: place.type,
      name: place.name,
      paths: [...place.paths],
      stack: place.shared ? (getStack(metadata) ?? null) : null,
      used_by: [...listOtherUsers(app, place, apps)],
    })),
    resolved_image: resolvedImageView(status?.memory.image ?? null),
    build: build ? buildView(build) : null,
    restarts: status?.restarts ?? 0,
    next_retry_at: status?.nextRetryAt ?? null,
    owners: { ...metadata.owners },
    events: events.map((event) => eventView(event)),
  };
}

/** Describes the source without the path of a folder, which only the spec shows. */
function describeSource(source: AppSource | undefined): string | null {
  if (source === undefined) return null;
  if ("archive" in source) return `archive ${source.archive.slice(0, 12)}`;
  if ("local" in source) return "folder";
  if ("empty" in source) return "Dockerfile";
  const { url, ref, path } = source.git;
  return `${url}${ref === undefined ? "" : `#${ref}`}${path === undefined ? "" : `:${path}`}`;
}

/** Returns true if the App is not being deleted, and its condition Ready is True for the newest generation. */
export function isReady(app: Resource<"App">): boolean {
  if (app.metadata.deletionTimestamp !== null) return false;
  const ready = findCondition(app.status?.conditions ?? [], "Ready");
  return ready?.status === "True" && ready.observedGeneration === app.metadata.generation;
}

/**
 * Returns the phase, or a preliminary one if the status is about an older generation.
 */
function getVisiblePhase(app: Resource<"App">): AppPhase {
  if (app.metadata.deletionTimestamp !== null) return "deleting";
  if (app.status === null) return "pending";
  if (isObserved(app, app.status)) return app.status.phase;
  if (app.status.phase === "running") return "deploying";
  return app.status.phase === "stopped" || app.status.phase === "failed"
    ? "pending"
    : app.status.phase;
}

function getStatusMessage(app: Resource<"App">): string {
  const { metadata, status } = app;
  if (metadata.deletionTimestamp !== null) return "being deleted";
  if (status === null) return "accepted, and not reconciled yet";
  if (!isObserved(app, status)) return `generation ${metadata.generation} is not reconciled yet`;
  const stalled = findCondition(status.conditions, "Stalled");
  if (stalled?.status === "True") return stalled.message;
  return findCondition(status.conditions, "Ready")?.message ?? "";
}

function isObserved(app: Resource<"App">, status: AppStatus): boolean {
  return status.observedGeneration >= app.metadata.generation;
}

function containerView(container: ContainerStatus): ContainerView {
  return {
    id: container.id,
    name: container.name,
    replica: container.replica,
    generation: container.generation,
    role: container.role,
    state: container.state,
    healthy: container.healthy,
    exit_code: container.exitCode,
    started_at: container.startedAt,
    image: container.image,
    image_id: container.imageId,
    address: container.address,
  };
}

function resolvedImageView(pin: ImagePin | null): AppDetails["resolved_image"] {
  if (pin === null) return null;
  const { reference, id, digest, isEngineOnly } = pin;
  return { reference, image_id: id, digest, engine_only: isEngineOnly };
}

/** Returns the list item of a revision. `build` is the build of the revision's image, if it was built. */
export function revisionView(
  revision: Revision,
  attempted: number | null,
  build: BuildRecord | undefined,
): RevisionView {
  return {
    number: revision.number,
    generation: revision.generation,
    image: revision.image,
    image_id: revision.imageId,
    digest: revision.digest,
    source_revision: build?.revision ?? null,
    build_id: build?.id ?? null,
    spec_hash: revision.specHash,
    state: revision.state,
    message: revision.message,
    created_at: revision.createdAt,
    actor: revision.actor,
    current: revision.number === attempted,
    spec: revision.spec,
  };
}
