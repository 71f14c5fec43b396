import type { Alternative, SchemaConjunction } from "./normal-form.ts";
import type { ScalarGrammar } from "./scalar-constraints.ts";
import type { SchemaDocument, SchemaNode } from "./schema-document.ts";

/** The parts of SchemaNormalizer that the functions for single keywords use. */
export interface NormalizerContext {
  readonly document: SchemaDocument;
  readonly scalars: ScalarGrammar;
  /** Returns a conjunction with one element: the schema of `node`, negated if `negated` is true. */
  toLiteral(node: SchemaNode, negated?: boolean): SchemaConjunction;
  child(node: SchemaNode, ...steps: readonly (string | number)[]): SchemaConjunction;
  /** Returns the negation of a conjunction, which must contain exactly one schema. */
  negate(schemas: SchemaConjunction): SchemaConjunction;
  /**
   * Returns the normal form of a conjunction: alternatives that together allow exactly the values that satisfy all
   * `schemas`.
   */
  normalize(schemas: SchemaConjunction): readonly Alternative[];
  /** Returns alternatives that together allow exactly the values that both `left` and `right` allow. */
  intersect(left: readonly Alternative[], right: readonly Alternative[]): readonly Alternative[];
  intersectPair(one: Alternative, other: Alternative): Alternative | undefined;
  deduplicate(alternatives: readonly Alternative[]): readonly Alternative[];
  nextFacetId(): number;
  /**
   * Records why a part of the schema allows no value. If the whole schema allows no value, its error message quotes
   * these reasons.
   */
  recordContradiction(reason: string): void;
}
