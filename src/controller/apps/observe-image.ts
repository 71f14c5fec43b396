import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { collectFinishedPull, isPullFinished } from "./ensure-image-pulled.ts";
import { getSpecHash, listForeignContainers } from "./plan/observed-containers.ts";
import type { ObservedApp } from "./plan/plan-types.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import type { ResolvedApp } from "./resolve-app.ts";

/**
 * The facts about a version of an App that decide if its image has to be pulled or built. `revision` is null for the
 * version of the stored spec.
 */
interface ImageObservation extends Pick<ResolvedApp, "revision"> {
  readonly desired: DesiredApp;
  readonly containers: readonly ObservedContainer[];
}

/**
 * Determines if the engine holds the image of a version; returns undefined if the reconcile run does not need the
 * answer. The engine is asked if a container would be stopped for a new one, or if the image is built from source. In
 * all other cases the creation of the container fails if the image is missing.
 */
export async function observeImage(
  context: ReconcilerContext,
  { desired, containers, revision }: ImageObservation,
  signal: AbortSignal,
): Promise<"present" | "absent" | undefined> {
  const own = countOwn(desired, containers);
  if (!needsImage(desired, own)) return undefined;
  if (isUnresolved(desired, revision)) return "absent";
  const isPulled = desired.origin === "registry" && collectFinishedPull(context, desired);
  if (containers.length > own || desired.origin === "source")
    return context.images.check(desired.imageId ?? desired.image, signal);
  return isPulled ? "present" : undefined;
}

/**
 * Returns what a reconcile run would find out about the image, without changing anything. Always asks the engine,
 * because a dry run creates no container whose creation could fail.
 */
export async function previewImage(
  context: ReconcilerContext,
  { desired, containers, revision }: ImageObservation,
  signal: AbortSignal,
): Promise<ObservedApp["image"]> {
  if (!needsImage(desired, countOwn(desired, containers))) return "unknown";
  if (isUnresolved(desired, revision))
    return isPullFinished(context, desired) ? "present" : "absent";
  return context.images.check(desired.imageId ?? desired.image, signal);
}

/**
 * Counts the containers of the desired version, except those that another program has created or changed and that Berth
 * has to replace.
 */
const countOwn = (desired: DesiredApp, containers: readonly ObservedContainer[]) =>
  containers.filter((container) => getSpecHash(container) === desired.hash).length -
  listForeignContainers(desired, containers).length;

const needsImage = (desired: DesiredApp, own: number) =>
  own < desired.containers.length && desired.app.running;

/**
 * True until the registry, the engine or a build has said which image the spec means. Before that, no container is
 * created.
 */
const isUnresolved = ({ imageId }: DesiredApp, revision: ResolvedApp["revision"]) =>
  imageId === null && revision === null;
