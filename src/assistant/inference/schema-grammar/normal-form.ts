import { getNumberKey, getStringKey } from "./constraint-keys.ts";
import type { NumberConstraints, StringConstraints, StringPattern } from "./scalar-constraints.ts";

/**
 * The normal form of a schema is a list of parts: values of one type, or named values; what any part
 * allows is allowed. Schemas of what an object or array holds stay unexpanded, so recursion does no harm.
 */
export type Alternative =
  | { readonly kind: "null" }
  | { readonly kind: "boolean" }
  | { readonly kind: "number"; readonly constraints: NumberConstraints }
  | { readonly kind: "string"; readonly constraints: StringConstraints }
  | ArrayAlternative
  | ObjectAlternative
  /** Exactly these values, of `const` and `enum`. */
  | { readonly kind: "values"; readonly values: readonly unknown[] };

/**
 * A schema, or what it is not: twice the id of a node of the document, plus one where it is negated.
 * Several together mean that all of them hold; sorted, each once; none at all allows everything.
 */
export type SchemaConjunction = readonly number[];

export const unconstrained: SchemaConjunction = [];

export interface ObjectAlternative {
  readonly kind: "object";
  /** Which schema a property has to meet: one facet for each schema object that was merged into this. */
  readonly facets: readonly ObjectFacet[];
  readonly required: readonly string[];
  /** Names that do not occur. */
  readonly forbidden: readonly string[];
  readonly min: number;
  readonly max: number | undefined;
  /** What names have to meet. */
  readonly names: SchemaConjunction;
  /** Where the object's own keywords stand, for messages. */
  readonly pointer: string;
}

/** `additionalProperties` belongs to the properties and patterns beside it, hence the grouping. */
export interface ObjectFacet {
  readonly id: number;
  readonly properties: ReadonlyMap<string, SchemaConjunction>;
  readonly patterns: readonly {
    readonly pattern: StringPattern;
    readonly schemas: SchemaConjunction;
  }[];
  /** Undefined: nothing is said. */
  readonly additional: SchemaConjunction | undefined;
  /** Made from what must not be; `unevaluatedProperties` does not see it. */
  readonly negative: boolean;
}

export interface ArrayAlternative {
  readonly kind: "array";
  readonly facets: readonly ArrayFacet[];
  readonly min: number;
  readonly max: number | undefined;
  readonly unique: boolean;
  readonly contains: readonly ContainsConstraint[];
  readonly pointer: string;
}

export interface ArrayFacet {
  readonly id: number;
  /** Made from what must not be; `unevaluatedItems` does not see it. */
  readonly negative: boolean;
  readonly prefix: readonly SchemaConjunction[];
  /** Of the items after the prefix; undefined: nothing is said. */
  readonly rest: SchemaConjunction | undefined;
}

export interface ContainsConstraint {
  readonly schemas: SchemaConjunction;
  readonly min: number;
  readonly max: number | undefined;
  readonly pointer: string;
}

export const anyString: StringConstraints = {
  patterns: [],
  forbiddenPatterns: [],
  formats: [],
  excluded: [],
};

export function anyNumber(pointer: string): NumberConstraints {
  return { integer: false, pointer };
}

export function anyArray(pointer: string): ArrayAlternative {
  return {
    kind: "array",
    facets: [],
    min: 0,
    max: undefined,
    unique: false,
    contains: [],
    pointer,
  };
}

export function anyObject(pointer: string): ObjectAlternative {
  return {
    kind: "object",
    facets: [],
    required: [],
    forbidden: [],
    min: 0,
    max: undefined,
    names: unconstrained,
    pointer,
  };
}

/** One part for each type: what `true` allows. */
export function anyValue(pointer: string): readonly Alternative[] {
  return [
    { kind: "null" },
    { kind: "boolean" },
    { kind: "number", constraints: anyNumber(pointer) },
    { kind: "string", constraints: anyString },
    anyArray(pointer),
    anyObject(pointer),
  ];
}

/** Any value but an object that has this property. */
export function withoutProperty(name: string, pointer: string): readonly Alternative[] {
  return anyValue(pointer).map((part) =>
    part.kind === "object" ? { ...part, forbidden: [name] } : part,
  );
}

/** The same, made from what must not be: nothing in it counts as evaluated. */
export function markNegative(part: Alternative): Alternative {
  if (part.kind !== "object" && part.kind !== "array") return part;
  if (part.facets.every((facet) => facet.negative)) return part;
  return part.kind === "object"
    ? { ...part, facets: part.facets.map(markFacetNegative) }
    : { ...part, facets: part.facets.map(markFacetNegative) };
}

/** Another facet, hence another id: its double may be seen. */
function markFacetNegative<Facet extends { readonly id: number; readonly negative: boolean }>(
  facet: Facet,
): Facet {
  return facet.negative ? facet : { ...facet, id: -facet.id, negative: true };
}

export function conjoin(left: SchemaConjunction, right: SchemaConjunction): SchemaConjunction {
  if (left.length === 0) return right;
  if (right.length === 0) return left;
  return [...new Set([...left, ...right])].toSorted((a, b) => a - b);
}

/** Equal for parts that allow the same because they were made of the same. */
export function getAlternativeKey(part: Alternative): string {
  switch (part.kind) {
    case "null":
    case "boolean":
      return part.kind;
    case "values":
      return `values ${JSON.stringify(part.values)}`;
    case "number":
      return `number ${getNumberKey(part.constraints)}`;
    case "string":
      return `string ${getStringKey(part.constraints)}`;
    case "array":
      return `array ${JSON.stringify([
        part.facets.map((facet) => facet.id),
        part.min,
        part.max ?? null,
        part.unique,
        part.contains.map(({ schemas, min, max }) => [schemas, min, max ?? null]),
      ])}`;
    default:
      return `object ${JSON.stringify([
        part.facets.map((facet) => facet.id),
        part.required.toSorted(),
        part.forbidden.toSorted(),
        part.min,
        part.max ?? null,
        part.names,
      ])}`;
  }
}
