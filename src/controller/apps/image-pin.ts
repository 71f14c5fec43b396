import { resolveAppDefaults } from "../../resources/app-defaults.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import type { ImagePin, ReconcileState } from "../../resources/app-status.ts";
import { readImageHold } from "../../resources/image-hold.ts";
import { parseImageReference } from "../../resources/image-reference.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  RESTARTED_AT_ANNOTATION,
  type Resource,
} from "../../resources/resource.ts";
import type { SourceState } from "../builds/port.ts";
import type { ImageInfo } from "../runtime/port.ts";
import type { StoreReader } from "./dry-run-store.ts";
import type { ImagePresence } from "./image-presence.ts";
import type { ImagePuller } from "./image-puller.ts";

/**
 * The image of an App's spec. A reference is resolved to an image and pinned to it when the reference is new, at an
 * explicit deploy, and, if the pull policy is Always, at a restart that the user asks for. Every container gets the
 * pinned image.
 */

/** The image of a version. `reference` is shown to people, `id` identifies the bytes that run. */
export interface VersionImage {
  readonly reference: string;
  /** The id of the image; null until the reference has been resolved. */
  readonly id: string | null;
  readonly digest: string | null;
}

interface PinInput {
  readonly resource: Resource<"App">;
  readonly memory: ReconcileState;
  readonly source: SourceState | null;
}

/**
 * Returns the reference of the image that the spec names, or of the image of the spec's resolved source; null if there
 * is neither.
 */
export function getOwnReference({ resource, source }: Omit<PinInput, "memory">): string | null {
  return resource.spec.image ?? (source?.type === "resolved" ? source.image : null);
}

/** Returns the image that the spec's reference is pinned to; null if it has to be resolved. */
export function findImagePin(store: StoreReader, input: PinInput): ImagePin | null {
  const reference = getOwnReference(input);
  const { resource, memory } = input;
  if (reference === null) return null;
  const pin = memory.image?.reference === reference ? memory.image : null;
  if (pin && isCurrent(resource, pin)) return pin;
  const hold = readImageHold(resource, reference);
  if (hold) {
    const revisions = store.revisions.list(resource.metadata.name);
    const digest = revisions.find(({ imageId }) => imageId === hold.id)?.digest;
    return createImagePin(resource, reference, { id: hold.id, digest });
  }
  // The image of an App that does not run is resolved only when the App is started, so the old pin is kept until then.
  return isIdle(resource) ? pin : null;
}

/**
 * Returns the known pin of the App's image. If there is none, looks up the reference on the engine, unless the pull
 * policy requires that the registry resolves it. Returns null if there is neither a pin nor such an image.
 */
export async function resolveImagePin(
  {
    store,
    images,
    puller,
  }: {
    readonly store: StoreReader;
    readonly images: Pick<ImagePresence, "inspect">;
    readonly puller: Pick<ImagePuller, "isRequested">;
  },
  input: PinInput,
  signal: AbortSignal,
): Promise<ImagePin | null> {
  const known = findImagePin(store, input);
  const reference = getOwnReference(input);
  const { resource } = input;
  if (known || reference === null || isIdle(resource) || asksRegistry(resource)) return known;
  // If the App has requested a pull, the operation that requested the pull also pins the pulled image, so no pin is
  // created here.
  if (puller.isRequested(resource.metadata.name, reference)) return null;
  const info = await images.inspect(reference, signal);
  return info && isForPlatform(info, resource.spec)
    ? createImagePin(resource, reference, info)
    : null;
}

/**
 * True if an image of the engine has the platform of the spec. An engine may hold an image of the same name for another
 * platform.
 */
export function isForPlatform(
  { platform }: Pick<ImageInfo, "platform">,
  { platform: wanted }: Pick<AppSpec, "platform">,
): boolean {
  if (wanted === undefined || platform === undefined) return true;
  const [own, other] = [platform, wanted].map((text) => text.split("/"));
  // Images often leave the variant out.
  return (other ?? []).every((part, index) => part === (own?.[index] ?? part));
}

export function createImagePin(
  resource: Resource<"App">,
  reference: string,
  { id, digest }: { readonly id: string; readonly digest?: string | null | undefined },
  isEngineOnly = false,
): ImagePin {
  const { annotations } = resource.metadata;
  return {
    reference,
    id,
    digest: digest ?? null,
    isEngineOnly,
    ...(resource.spec.platform !== undefined && { platform: resource.spec.platform }),
    hold: readImageHold(resource, reference)?.value ?? null,
    deployedAt: annotations[DEPLOYED_AT_ANNOTATION] ?? null,
    restartedAt: annotations[RESTARTED_AT_ANNOTATION] ?? null,
  };
}

/**
 * Returns the pin of the App's image if only a restart by the user has made the pin outdated, because the pull policy
 * is Always. If the image reference cannot be resolved again, the App keeps the image of this pin.
 */
export function findRestartedPin(
  resource: Resource<"App">,
  { image: pin }: ReconcileState,
): ImagePin | null {
  if (pin === null || pin.reference !== resource.spec.image) return null;
  const restartedAt = resource.metadata.annotations[RESTARTED_AT_ANNOTATION] ?? null;
  const restarted = { ...pin, restartedAt };
  return isCurrent(resource, restarted) ? restarted : null;
}

/** Returns the reference by which the image of a version is pulled; null if no registry is known to have it. */
export function getPullReference({ reference, id, digest }: VersionImage): string | null {
  if (id === null) return reference;
  return digest === null ? null : `${parseImageReference(reference).repository}@${digest}`;
}

const isIdle = ({ spec }: Resource<"App">) => spec.running === false || spec.suspend === true;

function isCurrent(resource: Resource<"App">, pin: ImagePin): boolean {
  const { spec, metadata } = resource;
  const { annotations } = metadata;
  if (pin.platform !== spec.platform) return false;
  if (pin.hold !== (readImageHold(resource, pin.reference)?.value ?? null)) return false;
  // The pin of a built image or of a digest cannot become outdated: each revision of a source has its own reference,
  // and a digest always names the same image.
  if (spec.image === undefined || parseImageReference(spec.image).digest !== null) return true;
  if (pin.deployedAt !== (annotations[DEPLOYED_AT_ANNOTATION] ?? null)) return false;
  return (
    resolveAppDefaults(spec).pullPolicy !== "Always" ||
    pin.restartedAt === (annotations[RESTARTED_AT_ANNOTATION] ?? null)
  );
}

/** True if only the registry can say which image the reference means now. */
function asksRegistry({ spec }: Resource<"App">): boolean {
  return (
    spec.image !== undefined &&
    parseImageReference(spec.image).digest === null &&
    resolveAppDefaults(spec).pullPolicy === "Always"
  );
}

export function describeEngineOnlyImage(reference: string): string {
  return `no registry has ${reference}: the engine's own image of this name is used`;
}
