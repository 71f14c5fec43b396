import { ConflictError } from "../base/errors.ts";
import type { GitSource } from "../resources/app-source-spec.ts";
import type { AppSpec } from "../resources/app-spec.ts";
import { emptyReconcileState } from "../resources/app-status.ts";
import { formatImageHold, readImageHold } from "../resources/image-hold.ts";
import { createMergePatch } from "../resources/merge-patch.ts";
import {
  IMAGE_HOLD_ANNOTATION,
  type Resource,
  SOURCE_REVISION_ANNOTATION,
} from "../resources/resource.ts";
import type { Revision, Store } from "../store/store.ts";

/**
 * Fields that a rollback does not change, because they say how the operator runs the app now, and are not part of a
 * version.
 */
const FIELDS_NOT_ROLLED_BACK: ReadonlySet<string> = new Set(["running", "suspend", "replicas"]);

/**
 * Returns the revision to roll back to:
 * - the requested revision, if the caller names one;
 * - otherwise the revision that served last;
 * - if that revision is the current one, the newest revision that was stable or has served.
 * If the caller names none, only revisions that differ from the current one in their spec or in the commit of their
 * source are considered. `revisions` are newest first. Returns undefined if there is no such revision.
 */
export function findRollbackTarget(
  app: Resource<"App">,
  revisions: readonly Revision[],
  requestedNumber: number | undefined,
  store: Pick<Store, "builds" | "sourcePins">,
): Revision | undefined {
  if (requestedNumber !== undefined)
    return revisions.find((revision) => revision.number === requestedNumber);
  const others = listOtherRevisions(app, revisions, store);
  const { servedRevisions } = { ...emptyReconcileState, ...app.status?.memory };
  const served = servedRevisions.map(({ number }) => number);
  return (
    others.find(({ number }) => number === served.at(-1)) ??
    others.find(
      ({ number, state }) =>
        state === "stable" || (state === "attempted" && served.includes(number)),
    )
  );
}

/**
 * Returns the hint of the error that is thrown if `findRollbackTarget` finds no revision. If other revisions exist, the
 * hint names one of them, preferably one that has not failed.
 */
export function explainMissingTarget(
  app: Resource<"App">,
  revisions: readonly Revision[],
  store: Pick<Store, "builds" | "sourcePins">,
): string {
  const { name } = app.metadata;
  const others = listOtherRevisions(app, revisions, store);
  const young = others.find(({ state }) => state === "attempted");
  const other = young ?? others[0];
  if (other === undefined) return `see GET /api/apps/${name}/revisions`;
  const why = young ? "was not Ready for long enough to count as stable" : "has failed";
  return `revision ${other.number} ${why}; to use it anyway: berth rollback ${name} --to ${other.number}`;
}

/** Returns, newest first, the revisions that differ from the current one in spec or commit. */
function listOtherRevisions(
  app: Resource<"App">,
  revisions: readonly Revision[],
  store: Pick<Store, "builds" | "sourcePins">,
): readonly Revision[] {
  const { name, annotations } = app.metadata;
  const attempted = app.status?.revisions.attempted ?? revisions[0]?.number ?? 0;
  // Revisions with a source are compared by commit. So if the build of the current commit failed, a rollback may also
  // choose the last attempted revision, which has an older commit.
  const commit = annotations[SOURCE_REVISION_ANNOTATION] ?? store.sourcePins.get(name)?.revision;
  return revisions.filter((revision) => {
    if (Object.keys(createRollbackPatch(app.spec, revision.spec)).length > 0) return true;
    if (revision.spec.image !== undefined) return revision.imageId !== findRequestedImage(app);
    if (revision.spec.source === undefined || revision.image === null) return false;
    return commit === undefined
      ? revision.number !== attempted
      : store.builds.findByImage(revision.image)?.revision !== commit;
  });
}

/** Returns the id of the image that the App should run; null while that is not known. */
function findRequestedImage({ metadata, spec, status }: Resource<"App">): string | null {
  const pin = status?.memory.image;
  const hold = readImageHold({ metadata }, spec.image ?? "");
  if (hold) return hold.id;
  return status?.observedGeneration === metadata.generation && pin?.reference === spec.image && pin
    ? pin.id
    : null;
}

/**
 * Returns the annotation that pins an App to the image of the revision. If the image is unknown, returns the annotation
 * that removes an earlier pin.
 */
export function createImageHold(
  app: Resource<"App">,
  { spec, image, imageId }: Revision,
): Record<string, string | null> {
  const reference = spec.image ?? image;
  if (reference !== null && imageId !== null)
    return { [IMAGE_HOLD_ANNOTATION]: formatImageHold(reference, imageId) };
  const isHeld = app.metadata.annotations[IMAGE_HOLD_ANNOTATION] !== undefined;
  return isHeld ? { [IMAGE_HOLD_ANNOTATION]: null } : {};
}

/**
 * Returns the annotations that pin an App with a source to the commit of the revision, or that remove such a pin. A
 * source archive needs no pin, because the spec contains its digest. Throws ConflictError `wrong_state` if neither the
 * image nor the source of the revision is available.
 */
export function createSourceHold(
  app: Resource<"App">,
  target: Revision,
  store: Pick<Store, "builds" | "ownedImages">,
): Record<string, string | null> {
  const { source } = target.spec;
  const isHeld = app.metadata.annotations[SOURCE_REVISION_ANNOTATION] !== undefined;
  const release = isHeld ? { [SOURCE_REVISION_ANNOTATION]: null } : {};
  // A rollback to an archive sets no annotation that holds its source, because Berth keeps the archive for as long as a
  // revision uses it. A source without files has only one revision.
  if (source === undefined || "archive" in source || "empty" in source) return release;
  const build = target.image === null ? undefined : store.builds.findByImage(target.image);
  const revisionGoneError = (why: string) =>
    new ConflictError("wrong_state", `revision ${target.number} is no longer available: ${why}`, {
      hint: `deploy that version again; see GET /api/apps/${app.metadata.name}/revisions`,
    });
  if (build === undefined)
    throw revisionGoneError("Berth does not know the source of the revision's image");
  // Berth can fetch and build a commit again. The earlier content of a local folder is lost, so a rollback to it needs
  // the image that was built from it.
  if ("local" in source && !store.ownedImages.list(app.metadata.name).includes(build.image)) {
    throw revisionGoneError(
      "the image of the revision has been removed, and the folder that it was built from has changed",
    );
  }
  return { [SOURCE_REVISION_ANNOTATION]: build.revision };
}

/**
 * Returns the merge patch that turns the spec `current` into `target`. The patch contains only differences, so that it
 * does not conflict with spec files that own the other fields. Pure.
 */
export function createRollbackPatch(current: AppSpec, target: AppSpec): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(createMergePatch({ ...current }, { ...target }))) {
    if (!FIELDS_NOT_ROLLED_BACK.has(key)) patch[key] = value;
  }
  const before = getGitSource(current);
  const after = getGitSource(target);
  if (before && after) {
    const followed = { ...after, interval: before.interval, hookSecret: before.hookSecret };
    const isSame = before.url === after.url;
    const git = createMergePatch(
      { ...before },
      isSame ? { ...followed, credential: before.credential } : followed,
    );
    if (Object.keys(git).length > 0) patch["source"] = { git };
    else delete patch["source"];
  }
  return patch;
}

/** Returns the git source of a spec; undefined if the spec has another source or none. */
function getGitSource({ source }: AppSpec): GitSource | undefined {
  return source && "git" in source ? source.git : undefined;
}
