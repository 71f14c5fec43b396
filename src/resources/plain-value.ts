import type { SpecIssue } from "../base/errors.ts";
import { formatPointer } from "./json-pointer.ts";

/** The maximum nesting of values: deeper than any spec, and safe for recursive code. */
export const VALUE_DEPTH_MAX = 64;
/** Limits the size of values, because aliases can expand a small text to a large value. */
const NODES_MAX = 200_000;
const CHARACTERS_MAX = 8 * 1_048_576;

/**
 * The keys that no value may have. Code that copies such a key without care, in Berth or in a program that reads its
 * JSON, could change prototypes.
 */
export const forbiddenKeys: ReadonlySet<string> = new Set([
  "__proto__",
  "constructor",
  "prototype",
]);

/**
 * Checks that an untrusted value consists of plain JSON values within the limits, before recursive code processes it.
 * Returns the first problem.
 */
export function checkPlainValue(value: unknown): SpecIssue | undefined {
  let nodes = 0;
  let characters = 0;

  const visit = (item: unknown, path: readonly string[]): SpecIssue | undefined => {
    nodes += 1;
    if (typeof item === "string") characters += item.length;
    if (nodes > NODES_MAX || characters > CHARACTERS_MAX) {
      return {
        path: formatPointer(path.slice(0, 2)),
        message: "too large once its aliases are expanded",
      };
    }
    if (path.length > VALUE_DEPTH_MAX) {
      return {
        path: formatPointer(path.slice(0, 2)),
        message: `nested deeper than ${VALUE_DEPTH_MAX} levels`,
      };
    }
    if (item === null || typeof item === "string" || typeof item === "boolean") return undefined;
    if (typeof item === "number") {
      if (Number.isFinite(item)) return undefined;
      return { path: formatPointer(path), message: `${item} is not a number that can be stored` };
    }
    if (Array.isArray(item)) {
      return findFirstIssue(item.entries(), ([index, child]) =>
        visit(child, [...path, String(index)]),
      );
    }
    if (typeof item !== "object" || !isPlainObject(item)) {
      return { path: formatPointer(path), message: "not a JSON value" };
    }
    return findFirstIssue(Object.entries(item), ([key, child]) =>
      forbiddenKeys.has(key)
        ? { path: formatPointer([...path, key]), message: `the key "${key}" is not allowed` }
        : child === undefined
          ? undefined
          : visit(child, [...path, key]),
    );
  };
  return visit(value, []);
}

function findFirstIssue<T>(
  items: Iterable<T>,
  check: (item: T) => SpecIssue | undefined,
): SpecIssue | undefined {
  for (const item of items) {
    const issue = check(item);
    if (issue) return issue;
  }
  return undefined;
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
