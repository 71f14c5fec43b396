import type { Alternative, SchemaConjunction } from "./normal-form.ts";
import type { ScalarGrammar } from "./scalar-constraints.ts";
import type { SchemaDocument, SchemaNode } from "./schema-document.ts";

/** What those who work out one keyword ask of the whole; `Shapes` is it. */
export interface NormalizerContext {
  readonly document: SchemaDocument;
  readonly scalars: ScalarGrammar;
  /** Names a node, so that it can stand in `Schemas`. */
  toLiteral(node: SchemaNode, negated?: boolean): SchemaConjunction;
  child(node: SchemaNode, ...steps: readonly (string | number)[]): SchemaConjunction;
  /** The opposite of a single schema. */
  negate(schemas: SchemaConjunction): SchemaConjunction;
  /** What values may be that meet every one of `schemas`. */
  normalize(schemas: SchemaConjunction): readonly Alternative[];
  /** What both lists allow. */
  intersect(left: readonly Alternative[], right: readonly Alternative[]): readonly Alternative[];
  intersectPair(one: Alternative, other: Alternative): Alternative | undefined;
  /** Each part once. */
  deduplicate(parts: readonly Alternative[]): readonly Alternative[];
  nextFacetId(): number;
  /** Notes why something cannot be: the reason that is given when nothing at all can. */
  recordContradiction(reason: string): void;
}
