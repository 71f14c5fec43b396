import { deepEqual } from "../base/canonical-json.ts";
import { isObject } from "../base/json.ts";

type Mapping = Readonly<Record<string, unknown>>;

/** Creates the merge patch (RFC 7396) that turns `from` into `to`. */
export function createMergePatch(from: Mapping, to: Mapping): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  for (const key of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const [before, after] = [from[key], to[key]];
    if (after === undefined) {
      if (before !== undefined) patch[key] = null;
    } else if (isObject(before) && isObject(after)) {
      const inner = createMergePatch(before, after);
      if (Object.keys(inner).length > 0) patch[key] = inner;
    } else if (!deepEqual(before, after)) {
      patch[key] = after;
    }
  }
  return patch;
}

/** Applies a merge patch (RFC 7396) to a copy of the value. */
export function applyMergePatch(value: Mapping, patch: Mapping): Record<string, unknown> {
  const result: Record<string, unknown> = { ...value };
  for (const [key, change] of Object.entries(patch)) {
    const before = result[key];
    if (change === null) delete result[key];
    else if (isObject(change))
      result[key] = applyMergePatch(isObject(before) ? before : {}, change);
    else result[key] = change;
  }
  return result;
}
