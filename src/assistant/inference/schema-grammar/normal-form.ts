import { getNumberKey, getStringKey } from "./constraint-keys.ts";
import type { NumberConstraints, StringConstraints, StringPattern } from "./scalar-constraints.ts";

/**
 * One disjunct of a schema's normal form: values of one type, or listed values. A value is allowed if any
 * alternative allows it. Schemas of members and items stay unexpanded, so recursive schemas are possible.
 */
export type Alternative =
  | { readonly kind: "null" }
  | { readonly kind: "boolean" }
  | { readonly kind: "number"; readonly constraints: NumberConstraints }
  | { readonly kind: "string"; readonly constraints: StringConstraints }
  | ArrayAlternative
  | ObjectAlternative
  /** Exactly these values, from `const` and `enum`. */
  | { readonly kind: "values"; readonly values: readonly unknown[] };

/**
 * A conjunction of schemas, sorted and without duplicates; an empty one allows everything. Each number in it is a
 * literal: twice the id of a node of the document, plus one if the schema is negated.
 */
export type SchemaConjunction = readonly number[];

export const unconstrained: SchemaConjunction = [];

export interface ObjectAlternative {
  readonly kind: "object";
  /** The constraints on properties: one facet for each schema object that was merged into this alternative. */
  readonly facets: readonly ObjectFacet[];
  readonly required: readonly string[];
  /** Names of properties that the object must not have. */
  readonly forbidden: readonly string[];
  readonly min: number;
  readonly max: number | undefined;
  /** The schemas for property names. */
  readonly names: SchemaConjunction;
  /** The JSON Pointer of the object's keywords, for messages. */
  readonly pointer: string;
}

/**
 * The member schemas of one schema object; `additionalProperties` depends on the properties and patterns of the same
 * schema object.
 */
export interface ObjectFacet {
  readonly id: number;
  readonly properties: ReadonlyMap<string, SchemaConjunction>;
  readonly patterns: readonly {
    readonly pattern: StringPattern;
    readonly schemas: SchemaConjunction;
  }[];
  /** The schemas of additional properties; undefined if the schema object has no `additionalProperties`. */
  readonly additional: SchemaConjunction | undefined;
  /**
   * True if the schema object of this facet is negated. Its properties then do not count as evaluated for
   * `unevaluatedProperties`.
   */
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

/** The item schemas of one schema object. */
export interface ArrayFacet {
  readonly id: number;
  /**
   * True if the schema object of this facet is negated. Its items then do not count as evaluated for
   * `unevaluatedItems`.
   */
  readonly negative: boolean;
  readonly prefix: readonly SchemaConjunction[];
  /** The schemas of the items after the prefix; undefined if there are none. */
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

/** Returns an alternative for each type, as for the schema `true`. */
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

/** Returns alternatives for any value except objects that have this property. */
export function withoutProperty(name: string, pointer: string): readonly Alternative[] {
  return anyValue(pointer).map((alternative) =>
    alternative.kind === "object" ? { ...alternative, forbidden: [name] } : alternative,
  );
}

/**
 * Marks all facets of an object or array alternative as negative, so that their properties and items do not count as
 * evaluated for `unevaluatedProperties` and `unevaluatedItems`.
 */
export function markNegative(alternative: Alternative): Alternative {
  if (alternative.kind !== "object" && alternative.kind !== "array") return alternative;
  if (alternative.facets.every((facet) => facet.negative)) return alternative;
  return alternative.kind === "object"
    ? { ...alternative, facets: alternative.facets.map(markFacetNegative) }
    : { ...alternative, facets: alternative.facets.map(markFacetNegative) };
}

/**
 * Returns a negative copy of a facet. The copy gets another id, because an intersection keeps only one of several
 * facets with the same id, and the original and the copy must both be kept.
 */
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

/** Returns a key that is equal for alternatives with the same content. */
export function getAlternativeKey(alternative: Alternative): string {
  switch (alternative.kind) {
    case "null":
    case "boolean":
      return alternative.kind;
    case "values":
      return `values ${JSON.stringify(alternative.values)}`;
    case "number":
      return `number ${getNumberKey(alternative.constraints)}`;
    case "string":
      return `string ${getStringKey(alternative.constraints)}`;
    case "array":
      return `array ${JSON.stringify([
        alternative.facets.map((facet) => facet.id),
        alternative.min,
        alternative.max ?? null,
        alternative.unique,
        alternative.contains.map(({ schemas, min, max }) => [schemas, min, max ?? null]),
      ])}`;
    default:
      return `object ${JSON.stringify([
        alternative.facets.map((facet) => facet.id),
        alternative.required.toSorted(),
        alternative.forbidden.toSorted(),
        alternative.min,
        alternative.max ?? null,
        alternative.names,
      ])}`;
  }
}
