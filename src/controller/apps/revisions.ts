import type { AppSpec } from "../../resources/app-spec.ts";
import type { AppStatus, ReconcileState } from "../../resources/app-status.ts";
import type { Revision, Store } from "../../store/store.ts";
import type { DesiredApp } from "./desired-app.ts";
import { findLastGoodRevision } from "./revert-or-stall.ts";
import { revisionHash } from "./revision-hash.ts";

/** Keeps the version as a revision, or updates the spec of the revision that it has. */
export function keepRevision(store: Store, desired: DesiredApp, spec: AppSpec): Revision {
  return store.revisions.ensure({
    app: desired.name,
    generation: desired.generation,
    specHash: revisionHash(spec, desired.image),
    spec,
    image: desired.image,
    imageId: null,
  });
}

export function findRevision(
  store: Store,
  app: string,
  spec: AppSpec,
  image: string | null,
): Revision | undefined {
  const hash = revisionHash(spec, image);
  return store.revisions.list(app).find((revision) => revision.specHash === hash);
}

export function buildRevisionStatus(
  store: Store,
  app: string,
  attempted: Revision | undefined,
  memory: ReconcileState,
): AppStatus["revisions"] {
  return {
    attempted: attempted?.number ?? null,
    applied: memory.servedRevisions.at(-1)?.number ?? null,
    stable: findLastGoodRevision(store, app, memory)?.number ?? null,
  };
}
