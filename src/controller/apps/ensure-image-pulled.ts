import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import type { Store } from "../../store/store.ts";
import type { Reason } from "../reason.ts";
import { findRegistryAuth } from "../secrets/registry-auth.ts";
import type { DesiredApp } from "./desired-app.ts";
import { getPullReference } from "./image-pin.ts";
import type { PullRequest, PullState } from "./image-puller.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

export type ImagePullResult =
  | { readonly type: "waiting"; readonly progress: Reason }
  /** `pulled` is the reference under which the engine now holds the pulled image. */
  | { readonly type: "done"; readonly pulled: string }
  /** The pull has failed. If no other image may be used, the caller calls `failPull`. */
  | { readonly type: "failed"; readonly failure: PullFailure }
  /** Another try cannot succeed until the spec or a credential changes. */
  | { readonly type: "refused"; readonly failure: Reason };

export type PullFailure = Extract<PullState, { readonly type: "failed" }>;

/** Starts or continues the pull of a version's image. Throws while the next try is not due. */
export function ensureImagePulled(
  context: ReconcilerContext,
  desired: DesiredApp,
): ImagePullResult {
  const { puller, store, retries } = context;
  const reference = getDesiredPullReference(desired);
  if (reference === null) return { type: "refused", failure: explainLostImage(desired) };
  const wait = retries.getWait(desired.name, "pull");
  if (wait) throw wait;
  retries.begin(desired.name, "pull");
  const request = createPullRequest(store, desired, reference);
  const state = puller.ensure(desired.name, request);
  if (state.type === "pulling") {
    const { progress } = state;
    const bytes =
      progress && progress.totalBytes > 0
        ? ` (${formatBytes(progress.currentBytes)} of ${formatBytes(progress.totalBytes)})`
        : "";
    return {
      type: "waiting",
      progress: { reason: "PullingImage", message: `pulling ${reference}${bytes}` },
    };
  }
  puller.collect(desired.name, request);
  if (state.type === "failed") return { type: "failed", failure: state };
  return { type: "done", pulled: recordPulledImage(context, desired, reference, state.digest) };
}

/**
 * Returns the reason why a pull failed if no later pull can succeed, for example because the image does not exist.
 * Throws if a later pull may succeed, for example when the registry is down.
 */
export function failPull(
  { store, retries }: ReconcilerContext,
  desired: DesiredApp,
  { error, progressAtMs }: PullFailure,
): Reason {
  const { name } = desired;
  if (error instanceof BerthError && error.code === "image_not_found")
    return desired.imageId === null
      ? { reason: "ImageNotFound", message: [error.message, error.hint].filter(Boolean).join("; ") }
      : explainLostImage(desired);
  if (error instanceof BerthError && error.code === "registry_denied")
    return {
      reason: "RegistryDenied",
      message: [error.message, error.hint].filter(Boolean).join("; "),
    };
  const message = getErrorMessage(error);
  store.events.record({ kind: "App", name, type: "Warning", reason: "PullFailed", message });
  if (!(error instanceof BerthError)) throw error;
  throw retries.fail(name, "pull", error, {
    sinceMs: progressAtMs,
    deadlineMs: desired.app.rollout.progressDeadlineMs,
  });
}

/**
 * Records a pull of this version that has ended since the last reconcile run. Returns false if there was none. After
 * the pull, the next run finds the image and creates the container without asking for the pull, so the pull has to be
 * recorded here.
 */
export function collectFinishedPull(context: ReconcilerContext, desired: DesiredApp): boolean {
  const { puller, store } = context;
  const reference = getDesiredPullReference(desired);
  if (reference === null) return false;
  const request = createPullRequest(store, desired, reference);
  const state = puller.state(desired.name, request);
  if (state?.type !== "done") return false;
  puller.collect(desired.name, request);
  recordPulledImage(context, desired, reference, state.digest);
  return true;
}

/** True if a pull of this version has succeeded and has not been recorded yet. */
export function isPullFinished(
  { puller, store }: Pick<ReconcilerContext, "puller" | "store">,
  desired: DesiredApp,
): boolean {
  const reference = getDesiredPullReference(desired);
  if (reference === null) return false;
  const request = createPullRequest(store, desired, reference);
  return puller.state(desired.name, request)?.type === "done";
}

/**
 * Records the image as owned by the App, so that it is removed together with the App. Returns the reference with the
 * digest if the digest is known, otherwise the given reference.
 */
function recordPulledImage(
  { store, retries }: ReconcilerContext,
  desired: DesiredApp,
  reference: string,
  digest: string | null,
): string {
  const { name } = desired;
  retries.succeed(name, "pull");
  const exact = getPullReference({ reference, id: "", digest }) ?? reference;
  // The given reference and the one with the digest are both recorded: after a tag has moved to another image, the
  // pulled image can be found only by its digest.
  for (const owned of new Set([reference, exact])) store.ownedImages.add(owned, name);
  const message = exact === reference ? reference : `${reference} is ${digest}`;
  store.events.record({ kind: "App", name, type: "Normal", reason: "ImagePulled", message });
  return exact;
}

function getDesiredPullReference({ image: reference, imageId: id, digest }: DesiredApp) {
  return getPullReference({ reference, id, digest });
}

function createPullRequest(
  store: Store,
  { app: { pullSecret, platform } }: DesiredApp,
  image: string,
): PullRequest {
  return { image, auth: findRegistryAuth(store, image, pullSecret), platform };
}

function explainLostImage({ name, image, imageId }: DesiredApp): Reason {
  return {
    reason: "ImageNotFound",
    message: `the version runs image ${imageId} of ${image}, which the engine no longer holds and no registry has; load it into the engine and run berth retry ${name}, or deploy another image`,
  };
}
