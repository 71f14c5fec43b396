import type { AppSpec } from "../../resources/app-spec.ts";
import type { AppStatus, ReconcileState } from "../../resources/app-status.ts";
import type { Revision, Store } from "../../store/store.ts";
import type { DesiredApp } from "./desired-app.ts";
import { findLastGoodRevision } from "./revert-or-stall.ts";
import { revisionHash } from "./revision-hash.ts";

/** Stores the version as a new revision, or updates the spec of its existing revision. */
export function keepRevision(store: Store, desired: DesiredApp, spec: AppSpec): Revision {
  return store.revisions.ensure({
    app: desired.name,
    generation: desired.generation,
    specHash: revisionHash(spec, desired.image, desired.imageId),
    spec,
    image: desired.image,
    imageId: desired.imageId,
    digest: desired.digest,
  });
}

export function findRevision(
  store: Store,
  app: string,
  spec: AppSpec,
  image: Pick<DesiredApp, "image" | "imageId">,
): Revision | undefined {
  const hash = revisionHash(spec, image.image, image.imageId);
  return store.revisions.list(app).find((revision) => revision.specHash === hash);
}

export function buildRevisionStatus(
  store: Store,
  app: string,
  /** The number of the revision that was last attempted. */
  attempted: number | null,
  memory: ReconcileState,
): AppStatus["revisions"] {
  return {
    attempted,
    applied: memory.servedRevisions.at(-1)?.number ?? null,
    stable: findLastGoodRevision(store, app, memory)?.number ?? null,
  };
}
