import type { Alternative, SchemaConjunction } from "./normal-form.ts";
import type { ScalarGrammar } from "./scalar-constraints.ts";
import type { SchemaDocument, SchemaNode } from "./schema-document.ts";

/** The parts of SchemaNormalizer that the functions for single keywords use. */
export interface NormalizerContext {
  readonly document: SchemaDocument;
  readonly scalars: ScalarGrammar;
  /** Returns the conjunction of one node, or of its negation. */
  toLiteral(node: SchemaNode, negated?: boolean): SchemaConjunction;
  child(node: SchemaNode, ...steps: readonly (string | number)[]): SchemaConjunction;
  /** Negates `schemas`, which must contain exactly one schema. */
  negate(schemas: SchemaConjunction): SchemaConjunction;
  /** Returns the alternatives for the values that satisfy all `schemas`. */
  normalize(schemas: SchemaConjunction): readonly Alternative[];
  /** Returns the alternatives for the values that both lists allow. */
  intersect(left: readonly Alternative[], right: readonly Alternative[]): readonly Alternative[];
  intersectPair(one: Alternative, other: Alternative): Alternative | undefined;
  /** Removes duplicates. */
  deduplicate(alternatives: readonly Alternative[]): readonly Alternative[];
  nextFacetId(): number;
  /**
   * Records why a part of the schema is unsatisfiable. The message contains the reason if the whole schema is
   * unsatisfiable.
   */
  recordContradiction(reason: string): void;
}
