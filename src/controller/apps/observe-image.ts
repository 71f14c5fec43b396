import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { collectFinishedPull, isPullFinished } from "./ensure-image-pulled.ts";
import { getSpecHash } from "./plan/observed-containers.ts";
import type { ObservedApp } from "./plan/plan-types.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

/**
 * Returns if the engine holds the image of a version; undefined if a run need not know. The engine is asked only if
 * an old version would be stopped for the new one: otherwise the creation itself fails without the image.
 */
export async function observeImage(
  context: ReconcilerContext,
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  signal: AbortSignal,
): Promise<"present" | "absent" | undefined> {
  const own = countOwn(desired, containers);
  if (!needsImage(desired, own)) return undefined;
  const isPulled = desired.origin === "registry" && collectFinishedPull(context, desired);
  if (mustPull(context, desired, own)) return "absent";
  if (containers.length > own || desired.origin === "source")
    return context.images.check(desired.image, signal);
  return isPulled ? "present" : undefined;
}

/**
 * Returns what a run would find out about the image, and changes nothing. Always asks the engine, since a dry run
 * creates no container that would fail without the image.
 */
export async function previewImage(
  context: ReconcilerContext,
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  signal: AbortSignal,
): Promise<ObservedApp["image"]> {
  const own = countOwn(desired, containers);
  if (!needsImage(desired, own)) return "unknown";
  const isPulled = desired.origin === "registry" && isPullFinished(context, desired);
  if (!isPulled && mustPull(context, desired, own)) return "absent";
  return context.images.check(desired.image, signal);
}

const countOwn = (desired: DesiredApp, containers: readonly ObservedContainer[]) =>
  containers.filter((container) => getSpecHash(container) === desired.hash).length;

const needsImage = (desired: DesiredApp, own: number) =>
  own < desired.containers.length && desired.app.running;

function mustPull({ images }: ReconcilerContext, desired: DesiredApp, own: number): boolean {
  return (
    desired.origin === "registry" &&
    desired.app.pullPolicy === "Always" &&
    own === 0 &&
    !images.isRefreshed(`${desired.name} ${desired.hash}`)
  );
}
