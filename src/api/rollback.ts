import { deepEqual } from "../base/canonical-json.ts";
import { ConflictError } from "../base/errors.ts";
import type { AppSpec, GitSource } from "../resources/app-spec.ts";
import { type Resource, SOURCE_REVISION_ANNOTATION } from "../resources/resource.ts";
import type { Revision, Store } from "../store/store.ts";

/** Not part of a version: whether an app runs, and how often, is a decision of today. */
const FIELDS_NOT_ROLLED_BACK: ReadonlySet<string> = new Set(["running", "suspend", "replicas"]);

/**
 * The revision that was asked for, or else the newest stable one that is not what the app is to be
 * now: of another spec, or of another commit of its source. `revisions` are newest first. Undefined
 * where there is none.
 */
export function findRollbackTarget(
  app: Resource<"App">,
  revisions: readonly Revision[],
  requestedNumber: number | undefined,
  store: Pick<Store, "builds" | "sourcePins">,
): Revision | undefined {
  if (requestedNumber !== undefined)
    return revisions.find((revision) => revision.number === requestedNumber);
  return listOtherRevisions(app, revisions, store).find(({ state }) => state === "stable");
}

/** What to do where `rollbackTarget` finds nothing: another revision may be there, but for too short a time. */
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
  const why = young ? "was not Ready for long enough to count as stable" : "was given up";
  return `revision ${other.number} ${why}; to go there all the same: berth rollback ${name} --to ${other.number}`;
}

/** Newest first: those of another spec, or of another commit of the source, than is wanted now. */
function listOtherRevisions(
  app: Resource<"App">,
  revisions: readonly Revision[],
  store: Pick<Store, "builds" | "sourcePins">,
): readonly Revision[] {
  const { name, annotations } = app.metadata;
  const attempted = app.status?.revisions.attempted ?? revisions[0]?.number ?? 0;
  // The commit that is wanted may have failed to build: then what was last tried is one to go back to.
  const commit = annotations[SOURCE_REVISION_ANNOTATION] ?? store.sourcePins.get(name)?.revision;
  return revisions.filter((revision) => {
    if (Object.keys(createRollbackPatch(app.spec, revision.spec)).length > 0) return true;
    if (revision.spec.source === undefined || revision.image === null) return false;
    return commit === undefined
      ? revision.number !== attempted
      : store.builds.findByImage(revision.image)?.revision !== commit;
  });
}

/**
 * The annotations that make an App with a source stay at the commit that the revision was built
 * from, or that end such a hold. An archive is named by the spec already. Throws ConflictError
 * `wrong_state` where neither image nor source of the revision is to be had any more.
 */
export function createSourceHold(
  app: Resource<"App">,
  target: Revision,
  store: Pick<Store, "builds" | "ownedImages">,
): Record<string, string | null> {
  const { source } = target.spec;
  const isHeld = app.metadata.annotations[SOURCE_REVISION_ANNOTATION] !== undefined;
  const release = isHeld ? { [SOURCE_REVISION_ANNOTATION]: null } : {};
  // Archives that a kept revision names are kept too.
  if (source === undefined || "archive" in source) return release;
  const build = target.image === null ? undefined : store.builds.findByImage(target.image);
  const revisionGoneError = (why: string) =>
    new ConflictError("wrong_state", `revision ${target.number} cannot be had any more: ${why}`, {
      hint: `deploy that version anew; see GET /api/apps/${app.metadata.name}/revisions`,
    });
  if (build === undefined) throw revisionGoneError("it is not known what its image was built from");
  // A commit can be fetched and built again; a folder is not any more what it was.
  if ("local" in source && !store.ownedImages.list(app.metadata.name).includes(build.image)) {
    throw revisionGoneError(
      "its image has been removed, and the folder that it was built from has changed",
    );
  }
  return { [SOURCE_REVISION_ANNOTATION]: build.revision };
}

/**
 * The merge patch that makes the one spec of the other. It holds what differs and nothing else, so
 * that fields of files which stay as they are cause no conflict. Pure.
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

/** How an App follows its repository is a decision of today too, and so is what it is fetched with. */
function getGitSource({ source }: AppSpec): GitSource | undefined {
  return source && "git" in source ? source.git : undefined;
}

function createMergePatch(
  current: Readonly<Record<string, unknown>>,
  target: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  for (const key of new Set([...Object.keys(current), ...Object.keys(target)])) {
    const before = current[key];
    const after = target[key];
    if (after === undefined) {
      if (before !== undefined) patch[key] = null;
    } else if (isMapping(before) && isMapping(after)) {
      const inner = createMergePatch(before, after);
      if (Object.keys(inner).length > 0) patch[key] = inner;
    } else if (!deepEqual(before, after)) {
      patch[key] = after;
    }
  }
  return patch;
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
