import { BerthError, getErrorMessage } from "../../base/errors.ts";
import type { ImagePin } from "../../resources/app-status.ts";
import type { Reason } from "../reason.ts";
import { ensureImageBuilt, type ImageBuildResult } from "./ensure-image-built.ts";
import { ensureImagePulled, failPull, type PullFailure } from "./ensure-image-pulled.ts";
import {
  createImagePin,
  describeEngineOnlyImage,
  findRestartedPin,
  isForPlatform,
} from "./image-pin.ts";
import { findImageRevision } from "./observe-source.ts";
import type { Operation } from "./plan/plan-types.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { revisionHash } from "./revision-hash.ts";
import type { ObservedRun } from "./run-state.ts";

/** The operations that obtain an image. They may take minutes, so a reconcile run starts them and does not wait. */
export type ImageOperation = Extract<Operation, { readonly type: "pullImage" | "buildImage" }>;

export function isImageOperation(operation: Operation): operation is ImageOperation {
  return operation.type === "pullImage" || operation.type === "buildImage";
}

export type ObtainedImage =
  | Extract<ImageBuildResult, { readonly type: "waiting" }>
  /** `pin` binds the App's image reference to the obtained image; null if the reference has to be resolved again. */
  | { readonly type: "done"; readonly pin: ImagePin | null }
  | { readonly type: "refused"; readonly failure: Reason };

/**
 * Pulls or builds the image of a version. Returns `refused` if no attempt can succeed; throws if a later attempt may
 * succeed.
 */
export async function obtainImage(
  context: ReconcilerContext,
  operation: ImageOperation,
  state: ObservedRun,
  signal: AbortSignal,
): Promise<ObtainedImage> {
  const { desired, source, resolved } = state;
  if (operation.type === "pullImage") {
    const result = ensureImagePulled(context, desired);
    if (result.type === "failed") return replaceFailedPull(context, state, result.failure, signal);
    return result.type === "done" ? pinImage(context, state, result.pulled, signal) : result;
  }
  const resource = { ...state.resource, spec: resolved.spec };
  const revision = findImageRevision(context, source, desired.image);
  const result = ensureImageBuilt(context, resource, desired, revision);
  return result.type === "done" ? pinImage(context, state, desired.image, signal) : result;
}

/** Pins the version to the image that the engine now holds. */
async function pinImage(
  context: ReconcilerContext,
  { resource, resolved, desired, memory }: ObservedRun,
  reference: string,
  signal: AbortSignal,
): Promise<ObtainedImage> {
  const info = await context.images.inspect(reference, signal);
  const { revision, spec } = resolved;
  if (revision === null)
    return { type: "done", pin: info ? createImagePin(resource, desired.image, info) : null };
  // The revision gets the id of this image: two builds of one source may give different bytes, and another engine may
  // give the same image another id.
  if (info && info.id !== revision.imageId && revision.imageId !== null)
    context.store.revisions.replaceImage(desired.name, revision.number, {
      imageId: info.id,
      specHash: revisionHash(spec, desired.image, info.id),
    });
  return { type: "done", pin: memory.image };
}

/**
 * Chooses another image after a failed pull: an image that exists only on the engine or, if only a restart was
 * requested, the App's current image. If neither applies, the version fails.
 */
async function replaceFailedPull(
  context: ReconcilerContext,
  { resource, resolved, desired, memory }: ObservedRun,
  failure: PullFailure,
  signal: AbortSignal,
): Promise<ObtainedImage> {
  const { store, retries, runtime } = context;
  const { error } = failure;
  if (resolved.revision === null && desired.imageId === null) {
    const record = (reason: string, message: string) =>
      store.events.record({ kind: "App", name: desired.name, type: "Warning", reason, message });
    const isMissing = error instanceof BerthError && error.code === "image_not_found";
    const info = isMissing ? await runtime.inspectImage(desired.image, signal) : undefined;
    if (info && isForPlatform(info, resource.spec)) {
      retries.succeed(desired.name, "pull");
      record("EngineOnlyImage", describeEngineOnlyImage(desired.image));
      return { type: "done", pin: createImagePin(resource, desired.image, info, true) };
    }
    const restarted = findRestartedPin(resource, memory);
    if (restarted) {
      retries.succeed(desired.name, "pull");
      record("ImageKept", `restarted with the same image as before: ${getErrorMessage(error)}`);
      return { type: "done", pin: restarted };
    }
  }
  return { type: "refused", failure: failPull(context, desired, failure) };
}
