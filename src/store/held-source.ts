import { deepEqual } from "../base/canonical-json.ts";
import { SOURCE_REVISION_ANNOTATION } from "../resources/resource.ts";
import type { Leaves } from "./field-leaves.ts";
import type { Ownership } from "./field-managers.ts";

const SOURCE = "/spec/source";
const SOURCE_HOLD = `/metadata/annotations/${SOURCE_REVISION_ANNOTATION.replaceAll("/", "~1")}`;

/**
 * If a write changes the source of an App, removes the annotation with which a rollback has pinned the App to a
 * revision of the old source. The annotation is kept if the same write sets it, as a rollback does.
 */
export function releaseHeldSource<T extends Pick<Ownership, "leaves" | "owners">>(
  before: Leaves,
  after: T,
): T {
  const isHeld =
    before.has(SOURCE_HOLD) && before.get(SOURCE_HOLD) === after.leaves.get(SOURCE_HOLD);
  if (!isHeld || deepEqual(getSourceLeaves(before), getSourceLeaves(after.leaves))) return after;
  const leaves = new Map([...after.leaves].filter(([pointer]) => pointer !== SOURCE_HOLD));
  const { [SOURCE_HOLD]: _owner, ...owners } = after.owners;
  return { ...after, leaves, owners };
}

function getSourceLeaves(leaves: Leaves): Record<string, unknown> {
  const source = [...leaves].filter(([pointer]) => pointer.startsWith(`${SOURCE}/`));
  return Object.fromEntries(source);
}
