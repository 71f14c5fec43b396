import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import type { Reason } from "../reason.ts";
import { findRegistryAuth } from "../secrets/registry-auth.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

export type ImagePullResult =
  | { readonly type: "waiting"; readonly progress: Reason }
  | { readonly type: "done" }
  /** Another try cannot succeed until the spec or a credential changes. */
  | { readonly type: "refused"; readonly failure: Reason };

/** Starts or continues the pull of a version's image. Throws if a later try may succeed, as when the registry is down. */
export function ensureImagePulled(
  context: ReconcilerContext,
  image: string,
  desired: DesiredApp,
): ImagePullResult {
  const { puller, store, retries } = context;
  const wait = retries.getWait(desired.name, "pull");
  if (wait) throw wait;
  retries.begin(desired.name, "pull");
  const auth = findRegistryAuth(store, image, desired.app.pullSecret);
  const state = puller.ensure(desired.name, image, auth);
  if (state.type === "pulling") {
    const { progress } = state;
    const bytes =
      progress && progress.totalBytes > 0
        ? ` (${formatBytes(progress.currentBytes)} of ${formatBytes(progress.totalBytes)})`
        : "";
    return {
      type: "waiting",
      progress: { reason: "PullingImage", message: `pulling ${image}${bytes}` },
    };
  }
  puller.collect(desired.name, image, auth);
  const recordEvent = (type: "Normal" | "Warning", reason: string, message: string) =>
    store.events.record({ kind: "App", name: desired.name, type, reason, message });
  if (state.type === "done") {
    recordPulledImage(context, image, desired);
    return { type: "done" };
  }
  const { error } = state;
  if (
    error instanceof BerthError &&
    (error.code === "image_not_found" || error.code === "registry_denied")
  ) {
    const reason = error.code === "image_not_found" ? "ImageNotFound" : "RegistryDenied";
    return {
      type: "refused",
      failure: { reason, message: [error.message, error.hint].filter(Boolean).join("; ") },
    };
  }
  recordEvent("Warning", "PullFailed", getErrorMessage(error));
  if (!(error instanceof BerthError)) throw error;
  throw retries.fail(desired.name, "pull", error, {
    sinceMs: state.progressAtMs,
    deadlineMs: desired.app.rollout.progressDeadlineMs,
  });
}

/**
 * Records a pull of this version that has ended since the last run; false if there was none. The creation that
 * follows finds the image, and would never ask for the pull again.
 */
export function collectFinishedPull(context: ReconcilerContext, desired: DesiredApp): boolean {
  if (!isPullFinished(context, desired)) return false;
  const { puller, store } = context;
  const auth = findRegistryAuth(store, desired.image, desired.app.pullSecret);
  puller.collect(desired.name, desired.image, auth);
  recordPulledImage(context, desired.image, desired);
  return true;
}

/** True if a pull of this version has ended well and has not been recorded yet. */
export function isPullFinished(
  { puller, store }: Pick<ReconcilerContext, "puller" | "store">,
  desired: DesiredApp,
): boolean {
  const auth = findRegistryAuth(store, desired.image, desired.app.pullSecret);
  return puller.state(desired.name, desired.image, auth)?.type === "done";
}

/** Owns the image for the App, so that it is removed together with the App. */
function recordPulledImage(
  { store, images, retries }: ReconcilerContext,
  image: string,
  desired: DesiredApp,
): void {
  retries.succeed(desired.name, "pull");
  images.markRefreshed(`${desired.name} ${desired.hash}`);
  store.ownedImages.add(image, desired.name);
  store.events.record({
    kind: "App",
    name: desired.name,
    type: "Normal",
    reason: "ImagePulled",
    message: image,
  });
}
