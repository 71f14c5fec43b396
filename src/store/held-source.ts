import { deepEqual } from "../base/canonical.ts";
import { SOURCE_REVISION } from "../resources/resource.ts";
import type { Ownership } from "./field-managers.ts";
import type { Leaves } from "./leaves.ts";

const SOURCE = "/spec/source";
const HELD = `/metadata/annotations/${SOURCE_REVISION.replaceAll("/", "~1")}`;

/**
 * A rollback holds an App's source at a revision. Another source ends that, since the revision is one
 * of the source of before; unless the same write brings its revision with it, as a rollback does.
 */
export function releaseHeldSource<T extends Pick<Ownership, "leaves" | "owners">>(
  before: Leaves,
  after: T,
): T {
  const isHeld = before.has(HELD) && before.get(HELD) === after.leaves.get(HELD);
  if (!isHeld || deepEqual(sourceOf(before), sourceOf(after.leaves))) return after;
  const leaves = new Map([...after.leaves].filter(([pointer]) => pointer !== HELD));
  const { [HELD]: _owner, ...owners } = after.owners;
  return { ...after, leaves, owners };
}

function sourceOf(leaves: Leaves): Record<string, unknown> {
  const source = [...leaves].filter(([pointer]) => pointer.startsWith(`${SOURCE}/`));
  return Object.fromEntries(source);
}
