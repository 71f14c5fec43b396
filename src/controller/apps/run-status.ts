import type { AppStatus } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Store } from "../../store/store.ts";
import type { Reason } from "../reason.ts";
import { buildAppStatus } from "./app-status.ts";
import type { VersionImage } from "./image-pin.ts";
import { findTerminalSourceFailure } from "./observe-source.ts";
import { describeOutage } from "./outage.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { buildRevisionStatus, findRevision } from "./revisions.ts";
import type { RunState } from "./run-state.ts";

/**
 * Returns the outage of a step that has been failing for too long; null if there is none, or if the spec stops or
 * suspends the App.
 */
function findOutage({ retries }: ReconcilerContext, { metadata, spec }: Resource<"App">) {
  if (spec.running === false || spec.suspend === true) return null;
  const error = retries.findOutage(metadata.name);
  return error ? describeOutage(error) : null;
}

/**
 * Returns the number of the revision that was last tried. While the image of the current version is not resolved, this
 * version has no revision, and the earlier number is returned.
 */
function findAttempted(store: Store, { resource }: RunState, ownImage: VersionImage | null) {
  const { spec, metadata, status } = resource;
  const last = status?.revisions.attempted ?? null;
  if (ownImage === null) return last;
  const { reference: image, id: imageId } = ownImage;
  return findRevision(store, metadata.name, spec, { image, imageId })?.number ?? last;
}

/**
 * Builds the App's status from the state of its reconcile run and from the store. `unknown` is the reason why the
 * engine could not be asked.
 */
export function buildRunStatus(
  context: ReconcilerContext,
  view: RunState & { readonly unknown: string | null; readonly nextRetryAtMs: number | null },
): AppStatus {
  const { store, clock, ingress, baseDomain } = context;
  const { resource, resolved, memory } = view;
  const { name } = resource.metadata;
  const ownImage = resolved?.ownImage ?? null;
  const desired = resolved?.desired ?? null;
  const masked = (reason: Reason | null) =>
    reason && { reason: reason.reason, message: view.mask(reason.message) };
  return buildAppStatus({
    resource,
    nowMs: clock.now(),
    memory,
    baseDomain,
    ingress,
    containers: view.containers,
    foreignOld: view.foreignOld,
    health: view.health,
    route: view.route,
    desired,
    plan: view.plan,
    refused: resolved?.refused ?? null,
    blocked: resolved?.blocked ?? null,
    held: masked(resolved?.held ?? null),
    sourceFailure: masked(findTerminalSourceFailure(view.source)),
    fetchFailure: masked((view.source?.type === "resolved" && view.source.fetchFailure) || null),
    outage: masked(view.outage ?? findOutage(context, resource)),
    ownImage: ownImage?.reference ?? null,
    build: ownImage === null ? null : (store.builds.findByImage(ownImage.reference) ?? null),
    progress: masked(view.progress),
    unknown: view.unknown,
    revisions: buildRevisionStatus(store, name, findAttempted(store, view, ownImage), memory),
    nextRetryAtMs: view.nextRetryAtMs,
  });
}
