import { AssistantError } from "../../assistant-error.ts";
import { isImplicitlyClosed, listDeclaredNames } from "./member-schemas.ts";
import type { Alternative } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import { isUnsatisfiable } from "./satisfiability.ts";
import type { SchemaNode } from "./schema-document.ts";
import { extendPointer, refuseKeyword } from "./schema-refusal.ts";

/** More alternatives than this out of one branch mean that the branches are told apart too finely. */
const BRANCH_ALTERNATIVES_MAX = 64;

/**
 * oneOf: each branch with what the others allow taken out of it. Nothing has to be taken out where two
 * branches cannot both hold, which is how most are written.
 */
export function normalizeOneOf(
  normalizer: NormalizerContext,
  node: SchemaNode,
  base: readonly Alternative[],
  branches: number,
): readonly Alternative[] {
  const found: Alternative[] = [];
  for (let index = 0; index < branches; index += 1) {
    let parts = normalizer.intersect(
      base,
      normalizer.normalize(normalizer.child(node, "oneOf", index)),
    );
    for (let other = 0; other < branches; other += 1) {
      if (other === index) continue;
      parts = normalizer.deduplicate(
        parts.flatMap((part) => excludeBranch(normalizer, node, part, index, other)),
      );
      if (parts.length > BRANCH_ALTERNATIVES_MAX) refuseOverlap(node, index, other);
    }
    found.push(...parts);
  }
  return normalizer.deduplicate(found);
}

/** What is left of `part`, which is of branch `index`, without what branch `other` allows. */
function excludeBranch(
  normalizer: NormalizerContext,
  node: SchemaNode,
  part: Alternative,
  index: number,
  other: number,
): readonly Alternative[] {
  const against = normalizer.child(node, "oneOf", other);
  let left = part;
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
 * An object that is closed by Berth's rule does not get a name that only the rival asks for. It is said
 * outright here, since schemas merged later may declare that name.
 */
function forbidForeignProperty(part: Alternative, rival: Alternative): Alternative | undefined {
  if (part.kind !== "object" || rival.kind !== "object" || !isImplicitlyClosed(part))
    return undefined;
  const declared = listDeclaredNames(part);
  const foreign = rival.required.find((name) => !declared.includes(name));
  return foreign === undefined ? undefined : { ...part, forbidden: [...part.forbidden, foreign] };
}

function refuseOverlap(node: SchemaNode, index: number, other: number, cause?: Error): never {
  refuseKeyword(
    "oneOf",
    extendPointer(node.pointer, "oneOf"),
    `has branches ${index} and ${other}, which cannot be shown to exclude each other; use anyOf, or give each a required property with a const of its own${cause ? ` (${cause.message})` : ""}`,
  );
}
