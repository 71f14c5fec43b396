import type { ContainerSpec, ObservedContainer } from "../../runtime/port.ts";
import { listForeignContainers } from "./observed-containers.ts";
import type { PlanDraft } from "./plan-draft.ts";

/** The containers of the desired version that have to be created. */
export interface Creations {
  readonly specs: readonly ContainerSpec[];
  readonly cause: string;
  /** True if no container can be created yet, because a dependency or the image is missing. */
  readonly areHeld: boolean;
}

/** Decides which containers to create, and adds the pull or the build of a missing image. */
export function decideCreations(
  draft: PlanDraft,
  kept: ReadonlyMap<number, ObservedContainer>,
): Creations {
  const { desired, observed } = draft;
  if (observed.isStalled) return { specs: [], cause: "", areHeld: true };
  const indexOf = (spec: ContainerSpec) => desired.containers.indexOf(spec);
  const isRemovedByHand = (spec: ContainerSpec) => indexOf(spec) < observed.stableReplicas;
  const missing = desired.containers.filter((_, replica) => !kept.has(replica));
  const isBlocked = missing.length > 0 && observed.blockedBy !== null;
  const isCreating =
    missing.length > 0 || listForeignContainers(desired, observed.containers).length > 0;
  const needsImage = isCreating && !isBlocked && observed.image === "absent";
  // A container that waits for an image or a dependency is not counted as a correction of drift. Otherwise each
  // reconcile during the wait would count another correction, until Berth reports a drift loop.
  const isHeld = isBlocked || needsImage;
  const specs = missing.filter(
    (spec) => isHeld || !isRemovedByHand(spec) || draft.tryCorrect("container", indexOf(spec)),
  );
  if (needsImage) {
    draft.add({
      type: desired.origin === "source" ? "buildImage" : "pullImage",
      image: desired.image,
      cause:
        desired.imageId === null && desired.app.pullPolicy === "Always"
          ? "the registry decides which image the reference means"
          : "the engine does not hold the image",
    });
  }
  return {
    specs,
    cause: specs.some(isRemovedByHand) ? "it was removed by hand" : "it is missing",
    areHeld: isHeld,
  };
}
