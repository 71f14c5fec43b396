import { getOwn, isObject } from "../../../base/json.ts";
import { readMap } from "./assertion-keywords.ts";
import { isStringArray } from "./json-values.ts";
import type { Alternative } from "./normal-form.ts";
import { anyObject, withoutProperty } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import type { SchemaNode } from "./schema-document.ts";
import { extendPointer, refuseKeyword } from "./schema-refusal.ts";

/** The name of a keyword, and the alternatives that the keyword allows. */
interface KeywordConstraint {
  readonly keyword: string;
  readonly alternatives: readonly Alternative[];
}

/** Expands if/then/else and dependencies: either the condition fails, or its consequence holds. */
export function* expandConditionals(
  normalizer: NormalizerContext,
  node: SchemaNode,
  raw: Readonly<Record<string, unknown>>,
): Generator<KeywordConstraint> {
  if (getOwn(raw, "if") !== undefined) {
    const ends = ["then", "else"].filter((keyword) => getOwn(raw, keyword) !== undefined);
    if (ends.length > 0) {
      const condition = normalizer.child(node, "if");
      const branch = (keyword: "then" | "else", given: readonly Alternative[]) =>
        ends.includes(keyword)
          ? normalizer.intersect(given, normalizer.normalize(normalizer.child(node, keyword)))
          : given;
      yield {
        keyword: "if",
        alternatives: normalizer.deduplicate([
          ...branch("then", normalizer.normalize(condition)),
          ...branch("else", normalizer.normalize(normalizer.negate(condition))),
        ]),
      };
    }
  }
  for (const keyword of ["dependentRequired", "dependentSchemas", "dependencies"] as const) {
    const map = readMap(node, raw, keyword);
    for (const [name, effect] of Object.entries(map ?? {})) {
      const at = extendPointer(node.pointer, keyword, name);
      yield {
        keyword,
        alternatives: normalizer.deduplicate([
          ...withoutProperty(name, at),
          ...applyDependency(normalizer, node, keyword, name, effect),
        ]),
      };
    }
  }
}

/** Returns the normal form of the objects that have the property `name` and satisfy what `keyword` requires of them. */
function applyDependency(
  normalizer: NormalizerContext,
  node: SchemaNode,
  keyword: "dependentRequired" | "dependentSchemas" | "dependencies",
  name: string,
  effect: unknown,
): readonly Alternative[] {
  const at = extendPointer(node.pointer, keyword, name);
  const having = { ...anyObject(at), required: [name] };
  if (keyword !== "dependentSchemas" && isStringArray(effect)) {
    return normalizer.intersect([having], [{ ...anyObject(at), required: effect }]);
  }
  if (keyword === "dependentRequired" || !(typeof effect === "boolean" || isObject(effect))) {
    return refuseKeyword(keyword, at, "must be a list of names or, in dependentSchemas, a schema");
  }
  return normalizer.intersect(
    [having],
    normalizer.normalize(normalizer.child(node, keyword, name)),
  );
}
