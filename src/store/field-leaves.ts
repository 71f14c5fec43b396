import { isObject } from "../base/json.ts";
import { parsePointer, formatPointer as pointerOf } from "../resources/json-pointer.ts";

/** The part of a resource that users write. */
export interface ResourceFields {
  readonly spec: Readonly<Record<string, unknown>>;
  readonly labels: Readonly<Record<string, unknown>>;
  readonly annotations: Readonly<Record<string, unknown>>;
}

/** Values by JSON Pointer. Arrays, scalars and empty maps are leaves; other maps are inner nodes. */
export type Leaves = ReadonlyMap<string, unknown>;

const ROOTS = [
  ["spec", ["spec"]],
  ["labels", ["metadata", "labels"]],
  ["annotations", ["metadata", "annotations"]],
] as const;

/**
 * Returns every leaf of a document, except those whose value is undefined. The caller has checked the depth
 * (plain-value.ts).
 */
export function flattenFields(fields: ResourceFields): Map<string, unknown> {
  const leaves = new Map<string, unknown>();
  for (const [part, segments] of ROOTS) {
    const root = pointerOf(segments);
    for (const [key, value] of Object.entries(fields[part])) {
      collectLeaves(leaves, root + pointerOf([key]), value);
    }
  }
  return leaves;
}

/** Returns the document that has exactly these leaves. */
export function unflattenLeaves(leaves: Leaves): ResourceFields {
  const root: Branch = new Map();
  for (const [pointer, value] of leaves) {
    const segments = parsePointer(pointer);
    const last = segments.pop();
    if (last === undefined) continue;
    let branch = root;
    for (const segment of segments) {
      const next = branch.get(segment);
      if (next instanceof Map) {
        branch = next;
      } else {
        const made: Branch = new Map();
        branch.set(segment, made);
        branch = made;
      }
    }
    branch.set(last, new Leaf(value));
  }
  const metadata = root.get("metadata");
  const below = (branch: Branch | Leaf | undefined) =>
    branch instanceof Map ? toObject(branch) : {};
  return {
    spec: below(root.get("spec")),
    labels: below(metadata instanceof Map ? metadata.get("labels") : undefined),
    annotations: below(metadata instanceof Map ? metadata.get("annotations") : undefined),
  };
}

/** Returns the pointers of all ancestors except the root, nearest first. */
export function getAncestors(pointer: string): string[] {
  const ancestors: string[] = [];
  for (let end = pointer.lastIndexOf("/"); end > 0; end = pointer.lastIndexOf("/", end - 1)) {
    ancestors.push(pointer.slice(0, end));
  }
  return ancestors;
}

export function isEmptyMap(value: unknown): boolean {
  return isObject(value) && Object.values(value).every((item) => item === undefined);
}

/** Returns true for the pointers of the top-level maps, which are never leaves. */
export function isRootPointer(pointer: string): boolean {
  return ROOTS.some(([, segments]) => pointerOf(segments) === pointer);
}

class Leaf {
  readonly value: unknown;
  constructor(value: unknown) {
    this.value = value;
  }
}
type Branch = Map<string, Branch | Leaf>;

/**
 * Converts a branch of the tree of fields to an object. Object.fromEntries defines each key, so a key called
 * `__proto__` stays an ordinary key.
 */
function toObject(branch: Branch): Record<string, unknown> {
  return Object.fromEntries(
    [...branch].map(([key, child]) => [key, child instanceof Leaf ? child.value : toObject(child)]),
  );
}

function collectLeaves(leaves: Map<string, unknown>, pointer: string, value: unknown): void {
  if (value === undefined) return;
  if (!isObject(value) || isEmptyMap(value)) {
    leaves.set(pointer, isObject(value) ? {} : value);
    return;
  }
  for (const [key, child] of Object.entries(value)) {
    collectLeaves(leaves, pointer + pointerOf([key]), child);
  }
}
