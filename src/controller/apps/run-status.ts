import type { AppStatus, ReconcileState } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { SourceState } from "../builds/port.ts";
import type { Reason } from "../reason.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import type { ReadinessObservation } from "./app-readiness.ts";
import { buildAppStatus } from "./app-status.ts";
import { findTerminalSourceFailure } from "./observe-source.ts";
import type { Plan } from "./plan/plan-types.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import type { ResolvedApp } from "./resolve-app.ts";
import { buildRevisionStatus, findRevision } from "./revisions.ts";

/** What one run knows so far. */
export interface RunView extends ReadinessObservation {
  readonly resource: Resource<"App">;
  readonly memory: ReconcileState;
  readonly source: SourceState | null;
  readonly resolved: ResolvedApp | null;
  readonly plan: Plan | null;
  readonly progress: Reason | null;
  /** Set where the engine could not be asked. */
  readonly unknown: string | null;
  readonly mask: SecretMask;
}

/** The status that follows from what a run has found, with what the store knows besides. */
export function buildRunStatus(context: ReconcilerContext, view: RunView): AppStatus {
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
  return buildAppStatus({
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
    sourceFailure: masked(findTerminalSourceFailure(view.source)),
    ownImage,
    build: ownImage === null ? null : (store.builds.findByImage(ownImage) ?? null),
    progress: masked(view.progress),
    unknown: view.unknown,
    revisions: buildRevisionStatus(
      store,
      name,
      { attempted: findRevision(store, name, resource.spec, ownImage), applied },
      memory,
    ),
    nextRetryAtMs: view.plan?.restartAtMs ?? null,
  });
}
