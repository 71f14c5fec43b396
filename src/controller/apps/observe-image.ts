import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { collectFinishedPull } from "./ensure-image-pulled.ts";
import { getSpecHash } from "./plan/observed-containers.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

/**
 * Whether the image of a version is there; undefined where that need not be known. The engine is only asked
 * where an old version would be stopped for the new one: a creation tells by itself.
 */
export async function observeImage(
  context: ReconcilerContext,
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  signal: AbortSignal,
): Promise<"present" | "absent" | undefined> {
  const { images } = context;
  const own = containers.filter((container) => getSpecHash(container) === desired.hash);
  if (own.length >= desired.containers.length || !desired.app.running) return undefined;
  const isRegistry = desired.origin === "registry";
  const isPulled = isRegistry && collectFinishedPull(context, desired);
  const mustPull =
    isRegistry &&
    desired.app.pullPolicy === "Always" &&
    own.length === 0 &&
    !images.isRefreshed(`${desired.name} ${desired.hash}`);
  if (mustPull) return "absent";
  if (containers.length > own.length || desired.origin === "source")
    return images.check(desired.image, signal);
  return isPulled ? "present" : undefined;
}
