import { AssistantError } from "../../errors.ts";
import { isNever } from "./emptiness.ts";
import { declaredNames, isClosedByRule } from "./members.ts";
import type { Part } from "./part.ts";
import { pointerTo, refuse } from "./refusal.ts";
import type { SchemaNode } from "./schema-document.ts";
import type { ShapeContext } from "./shape-context.ts";

/** More alternatives than this out of one branch mean that the branches are told apart too finely. */
const APART_MAX = 64;

/**
 * oneOf: each branch with what the others allow taken out of it. Nothing has to be taken out where two
 * branches cannot both hold, which is how most are written.
 */
export function exactlyOne(
  shapes: ShapeContext,
  node: SchemaNode,
  base: readonly Part[],
  branches: number,
): readonly Part[] {
  const found: Part[] = [];
  for (let index = 0; index < branches; index += 1) {
    let parts = shapes.meet(base, shapes.of(shapes.child(node, "oneOf", index)));
    for (let other = 0; other < branches; other += 1) {
      if (other === index) continue;
      parts = shapes.unique(parts.flatMap((part) => apartFrom(shapes, node, part, index, other)));
      if (parts.length > APART_MAX) notApart(node, index, other);
    }
    found.push(...parts);
  }
  return shapes.unique(found);
}

/** What is left of `part`, which is of branch `index`, without what branch `other` allows. */
function apartFrom(
  shapes: ShapeContext,
  node: SchemaNode,
  part: Part,
  index: number,
  other: number,
): readonly Part[] {
  const against = shapes.child(node, "oneOf", other);
  let left = part;
  for (const rival of shapes.of(against)) {
    const both = shapes.meetParts(left, rival);
    if (!both || isNever(shapes, both)) continue;
    const without = withoutForeignName(left, rival);
    if (without) {
      left = without;
      continue;
    }
    try {
      return shapes.meet([left], shapes.of(shapes.negated(against)));
    } catch (error) {
      if (!(error instanceof AssistantError)) throw error;
      return notApart(node, index, other, error);
    }
  }
  return [left];
}

/**
 * An object that is closed by Berth's rule does not get a name that only the rival asks for. It is said
 * outright here, since schemas merged later may declare that name.
 */
function withoutForeignName(part: Part, rival: Part): Part | undefined {
  if (part.kind !== "object" || rival.kind !== "object" || !isClosedByRule(part)) return undefined;
  const declared = declaredNames(part);
  const foreign = rival.required.find((name) => !declared.includes(name));
  return foreign === undefined ? undefined : { ...part, forbidden: [...part.forbidden, foreign] };
}

function notApart(node: SchemaNode, index: number, other: number, cause?: Error): never {
  refuse(
    "oneOf",
    pointerTo(node.pointer, "oneOf"),
    `has branches ${index} and ${other}, which cannot be shown to exclude each other; use anyOf, or give each a required property with a const of its own${cause ? ` (${cause.message})` : ""}`,
  );
}
