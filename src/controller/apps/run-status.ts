import type { Resource } from "../../resources/resource.ts";
import type { AppStatus, ReconcilerMemory } from "../../resources/status.ts";
import type { SourceState } from "../builds/port.ts";
import type { Reason } from "../reason.ts";
import type { Mask } from "../secrets/mask.ts";
import type { Seen } from "./complete.ts";
import type { ReconcilerContext } from "./context.ts";
import type { Plan } from "./plan/model.ts";
import type { Resolved } from "./resolve.ts";
import { findRevision, revisionStatus } from "./revisions.ts";
import { sourceFailure } from "./source-look.ts";
import { appStatus } from "./status.ts";

/** What one run knows so far. */
export interface RunView extends Seen {
  readonly resource: Resource<"App">;
  readonly memory: ReconcilerMemory;
  readonly source: SourceState | null;
  readonly resolved: Resolved | null;
  readonly plan: Plan | null;
  readonly progress: Reason | null;
  /** Set where the engine could not be asked. */
  readonly unknown: string | null;
  readonly mask: Mask;
}

/** The status that follows from what a run has found, with what the store knows besides. */
export function runStatus(context: ReconcilerContext, view: RunView): AppStatus {
  const { store, clock, ingress, baseDomain } = context;
  const { resource, resolved, memory } = view;
  const { name } = resource.metadata;
  const ownImage = resolved?.ownImage ?? null;
  const desired = resolved?.desired ?? null;
  const masked = (reason: Reason | null) =>
    reason && { reason: reason.reason, message: view.mask(reason.message) };
  const applied =
    view.containers.length > 0
      ? findRevision(store, name, resolved?.spec ?? resource.spec, desired?.image ?? null)
      : undefined;
  return appStatus({
    resource,
    nowMs: clock.now(),
    memory,
    baseDomain,
    ingress,
    containers: view.containers,
    health: view.health,
    route: view.route,
    desired,
    plan: view.plan,
    refused: resolved?.refused ?? null,
    blocked: resolved?.blocked ?? null,
    held: masked(resolved?.held ?? null),
    sourceFailure: masked(sourceFailure(view.source)),
    ownImage,
    build: ownImage === null ? null : (store.builds.ofImage(ownImage) ?? null),
    progress: masked(view.progress),
    unknown: view.unknown,
    revisions: revisionStatus(
      store,
      name,
      { attempted: findRevision(store, name, resource.spec, ownImage), applied },
      memory,
    ),
    nextRetryAtMs: view.plan?.restartAtMs ?? null,
  });
}
