import type { Part, Schemas } from "./part.ts";
import type { ScalarGrammar } from "./scalars.ts";
import type { SchemaDocument, SchemaNode } from "./schema-document.ts";

/** What those who work out one keyword ask of the whole; `Shapes` is it. */
export interface ShapeContext {
  readonly document: SchemaDocument;
  readonly scalars: ScalarGrammar;
  /** Names a node, so that it can stand in `Schemas`. */
  literal(node: SchemaNode, negated?: boolean): Schemas;
  child(node: SchemaNode, ...steps: readonly (string | number)[]): Schemas;
  /** The opposite of a single schema. */
  negated(schemas: Schemas): Schemas;
  /** What values may be that meet every one of `schemas`. */
  of(schemas: Schemas): readonly Part[];
  /** What both lists allow. */
  meet(left: readonly Part[], right: readonly Part[]): readonly Part[];
  meetParts(one: Part, other: Part): Part | undefined;
  /** Each part once. */
  unique(parts: readonly Part[]): readonly Part[];
  nextFacet(): number;
  /** Notes why something cannot be: the reason that is given when nothing at all can. */
  note(reason: string): void;
}
