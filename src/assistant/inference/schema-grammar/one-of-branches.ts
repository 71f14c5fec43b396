import { AssistantError } from "../../assistant-error.ts";
import { isImplicitlyClosed, listDeclaredNames } from "./member-schemas.ts";
import type { Alternative } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import { isUnsatisfiable } from "./satisfiability.ts";
import type { SchemaNode } from "./schema-document.ts";
import { extendPointer, refuseKeyword } from "./schema-refusal.ts";

/** A branch with more alternatives than this is refused as too complex. */
const BRANCH_ALTERNATIVES_MAX = 64;

/**
 * Normalizes oneOf to the union of its branches, each without the values that other branches allow. Most branches
 * exclude each other already, and then nothing needs to be removed.
 */
export function normalizeOneOf(
  normalizer: NormalizerContext,
  node: SchemaNode,
  base: readonly Alternative[],
  branches: number,
): readonly Alternative[] {
  const found: Alternative[] = [];
  for (let index = 0; index < branches; index += 1) {
    let alternatives = normalizer.intersect(
      base,
      normalizer.normalize(normalizer.child(node, "oneOf", index)),
    );
    for (let other = 0; other < branches; other += 1) {
      if (other === index) continue;
      alternatives = normalizer.deduplicate(
        alternatives.flatMap((alternative) =>
          excludeBranch(normalizer, node, alternative, index, other),
        ),
      );
      if (alternatives.length > BRANCH_ALTERNATIVES_MAX) refuseOverlap(node, index, other);
    }
    found.push(...alternatives);
  }
  return normalizer.deduplicate(found);
}

/** Restricts an alternative of the `oneOf` branch `index` to the values that the branch `other` does not allow. */
function excludeBranch(
  normalizer: NormalizerContext,
  node: SchemaNode,
  alternative: Alternative,
  index: number,
  other: number,
): readonly Alternative[] {
  const against = normalizer.child(node, "oneOf", other);
  let left = alternative;
  for (const rival of normalizer.normalize(against)) {
    const both = normalizer.intersectPair(left, rival);
    if (!both || isUnsatisfiable(normalizer, both)) continue;
    const without = forbidForeignProperty(left, rival);
    if (without) {
      left = without;
      continue;
    }
    try {
      return normalizer.intersect([left], normalizer.normalize(normalizer.negate(against)));
    } catch (error) {
      if (!(error instanceof AssistantError)) throw error;
      return refuseOverlap(node, index, other, error);
    }
  }
  return [left];
}

/**
 * If `alternative` allows no additional properties (see `isImplicitlyClosed`), forbids a property that only `rival`, an
 * alternative of another branch, requires. The property is forbidden explicitly, because schemas that are merged later
 * may declare it.
 */
function forbidForeignProperty(
  alternative: Alternative,
  rival: Alternative,
): Alternative | undefined {
  if (alternative.kind !== "object" || rival.kind !== "object" || !isImplicitlyClosed(alternative))
    return undefined;
  const declared = listDeclaredNames(alternative);
  const foreign = rival.required.find((name) => !declared.includes(name));
  return foreign === undefined
    ? undefined
    : { ...alternative, forbidden: [...alternative.forbidden, foreign] };
}

function refuseOverlap(node: SchemaNode, index: number, other: number, cause?: Error): never {
  refuseKeyword(
    "oneOf",
    extendPointer(node.pointer, "oneOf"),
    `has branches ${index} and ${other}, which cannot be shown to exclude each other; use anyOf, or give each a required property with a const of its own${cause ? ` (${cause.message})` : ""}`,
  );
}
