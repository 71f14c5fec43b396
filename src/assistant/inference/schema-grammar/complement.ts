import { getOwn, isObject } from "../../../base/json.ts";
import {
  readCount,
  readList,
  readMap,
  readNumber,
  readRequired,
  readTypes,
} from "./assertion-keywords.ts";
import { subschemaKeywords, unsupportedKeywords } from "./keyword-tables.ts";
import type { Alternative } from "./normal-form.ts";
import {
  anyArray,
  anyNumber,
  anyObject,
  anyString,
  anyValue,
  markNegative,
} from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import type { SchemaNode } from "./schema-document.ts";
import { extendPointer, refuseKeyword } from "./schema-refusal.ts";

type Raw = Readonly<Record<string, unknown>>;

/**
 * Returns the normal form of a schema's negation: alternatives that together allow the values which violate at least
 * one keyword. Used for `not`, `else` and oneOf. Refuses keywords whose complement cannot be expressed as a grammar.
 */
export function complementSchema(
  normalizer: NormalizerContext,
  node: SchemaNode,
): readonly Alternative[] {
  const { raw, pointer } = node;
  if (typeof raw === "boolean") return raw ? [] : anyValue(pointer);
  const alternatives: Alternative[] = [];
  for (const keyword of Object.keys(raw)) {
    const complement = Object.hasOwn(keywordComplements, keyword)
      ? keywordComplements[keyword]
      : undefined;
    if (complement) alternatives.push(...complement(normalizer, node, raw));
    else if (!hasNoAssertion(raw, keyword)) {
      refuseKeyword(keyword, extendPointer(pointer, keyword), "cannot be negated");
    }
  }
  return normalizer.deduplicate(alternatives.map(markNegative));
}

/** Returns true for annotations, and for keywords that are only read together with other keywords. */
function hasNoAssertion(raw: Raw, keyword: string): boolean {
  if (keyword === "then" || keyword === "else") return true;
  if (keyword === "$defs" || keyword === "definitions" || keyword === "nullable") return true;
  if (keyword === "additionalItems") return !Array.isArray(getOwn(raw, "items"));
  if (keyword === "minContains" || keyword === "maxContains")
    return !Object.hasOwn(raw, "contains");
  if (keyword === "uniqueItems") return getOwn(raw, keyword) !== true;
  if (keyword === "additionalProperties" || keyword === "items")
    return getOwn(raw, keyword) === true;
  return (
    !subschemaKeywords.has(keyword) &&
    !Object.hasOwn(unsupportedKeywords, keyword) &&
    !["format", "multipleOf", "dependentRequired"].includes(keyword)
  );
}

type KeywordComplement = (
  normalizer: NormalizerContext,
  node: SchemaNode,
  raw: Raw,
) => readonly Alternative[];

const keywordComplements: Readonly<Record<string, KeywordComplement>> = {
  type: (_, node, raw) => {
    const types = readTypes(node, raw);
    if (types.has("integer") && !types.has("number")) {
      refuseKeyword(
        "type",
        extendPointer(node.pointer, "type"),
        "contains integer, which cannot be negated",
      );
    }
    return anyValue(node.pointer).filter((alternative) => !types.has(alternative.kind));
  },
  const: (_, node, raw) => excludeValues(node, "const", [raw["const"]]),
  enum: (_, node, raw) => excludeValues(node, "enum", readList(node, raw, "enum") ?? []),
  $ref: (normalizer, node, raw) =>
    normalizer.normalize(
      normalizer.toLiteral(normalizer.document.resolve(node, String(raw["$ref"])), true),
    ),
  not: (normalizer, node) => normalizer.normalize(normalizer.child(node, "not")),
  allOf: (normalizer, node, raw) =>
    (readList(node, raw, "allOf") ?? []).flatMap((_, index) =>
      normalizer.normalize(normalizer.negate(normalizer.child(node, "allOf", index))),
    ),
  anyOf: (normalizer, node, raw) =>
    (readList(node, raw, "anyOf") ?? []).reduce<readonly Alternative[]>(
      (alternatives, _, index) =>
        normalizer.intersect(
          alternatives,
          normalizer.normalize(normalizer.negate(normalizer.child(node, "anyOf", index))),
        ),
      anyValue(node.pointer),
    ),
  if: (normalizer, node, raw) => {
    const condition = normalizer.child(node, "if");
    const failing = (given: readonly Alternative[], keyword: string) =>
      getOwn(raw, keyword) === undefined
        ? []
        : normalizer.intersect(
            given,
            normalizer.normalize(normalizer.negate(normalizer.child(node, keyword))),
          );
    return [
      ...failing(normalizer.normalize(condition), "then"),
      ...failing(normalizer.normalize(normalizer.negate(condition)), "else"),
    ];
  },
  required: (_, node, raw) =>
    readRequired(node, raw).map((name) => ({ ...anyObject(node.pointer), forbidden: [name] })),
  properties: (normalizer, node, raw) =>
    Object.entries(readMap(node, raw, "properties") ?? {}).flatMap(([name, schema]) =>
      schema === true || (isObject(schema) && Object.keys(schema).length === 0)
        ? []
        : [makeViolatingObject(normalizer, node, name)],
    ),
  minProperties: (_, node, raw) => {
    const min = readCount(node, raw, "minProperties") ?? 0;
    return min === 0 ? [] : [{ ...anyObject(node.pointer), max: min - 1 }];
  },
  maxProperties: (_, node, raw) => [
    { ...anyObject(node.pointer), min: (readCount(node, raw, "maxProperties") ?? 0) + 1 },
  ],
  minItems: (_, node, raw) => {
    const min = readCount(node, raw, "minItems") ?? 0;
    return min === 0 ? [] : [{ ...anyArray(node.pointer), max: min - 1 }];
  },
  maxItems: (_, node, raw) => [
    { ...anyArray(node.pointer), min: (readCount(node, raw, "maxItems") ?? 0) + 1 },
  ],
  minLength: (_, node, raw) => {
    const min = readCount(node, raw, "minLength") ?? 0;
    return min === 0 ? [] : [stringAlternative({ maxLength: min - 1 })];
  },
  maxLength: (_, node, raw) => [
    stringAlternative({ minLength: (readCount(node, raw, "maxLength") ?? 0) + 1 }),
  ],
  pattern: (_, node, raw) => {
    const pointer = extendPointer(node.pointer, "pattern");
    const source = String(getOwn(raw, "pattern"));
    return [stringAlternative({ forbiddenPatterns: [{ source, keyword: "pattern", pointer }] })];
  },
  minimum: (_, node, raw) => {
    const bound = readNumber(node, raw, "minimum");
    return [
      numberAlternative(
        node,
        getOwn(raw, "exclusiveMinimum") === true ? { maximum: bound } : { exclusiveMaximum: bound },
      ),
    ];
  },
  maximum: (_, node, raw) => {
    const bound = readNumber(node, raw, "maximum");
    return [
      numberAlternative(
        node,
        getOwn(raw, "exclusiveMaximum") === true ? { minimum: bound } : { exclusiveMinimum: bound },
      ),
    ];
  },
  exclusiveMinimum: (_, node, raw) =>
    typeof getOwn(raw, "exclusiveMinimum") === "boolean"
      ? []
      : [numberAlternative(node, { maximum: readNumber(node, raw, "exclusiveMinimum") })],
  exclusiveMaximum: (_, node, raw) =>
    typeof getOwn(raw, "exclusiveMaximum") === "boolean"
      ? []
      : [numberAlternative(node, { minimum: readNumber(node, raw, "exclusiveMaximum") })],
};

/**
 * Returns an alternative that allows exactly the objects with a property `name` whose value violates the property's
 * schema.
 */
function makeViolatingObject(
  normalizer: NormalizerContext,
  node: SchemaNode,
  name: string,
): Alternative {
  const facet = {
    id: normalizer.nextFacetId(),
    properties: new Map([[name, normalizer.negate(normalizer.child(node, "properties", name))]]),
    patterns: [],
    additional: undefined,
    negative: true,
  };
  const pointer = extendPointer(node.pointer, "properties", name);
  return { ...anyObject(pointer), facets: [facet], required: [name] };
}

function stringAlternative(bounds: Partial<typeof anyString>): Alternative {
  return { kind: "string", constraints: { ...anyString, ...bounds } };
}

function numberAlternative(
  node: SchemaNode,
  bounds: Partial<
    Record<"minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", number | undefined>
  >,
): Alternative {
  return { kind: "number", constraints: { ...anyNumber(node.pointer), ...bounds } };
}

/** Returns alternatives that together allow all values except the given ones. */
function excludeValues(
  node: SchemaNode,
  keyword: string,
  values: readonly unknown[],
): readonly Alternative[] {
  const { pointer } = node;
  const numbers = values.filter((value) => typeof value === "number").toSorted((a, b) => a - b);
  const alternatives: Alternative[] = [];
  if (!values.includes(null)) alternatives.push({ kind: "null" });
  const booleans = [true, false].filter((value) => !values.includes(value));
  if (booleans.length > 0) alternatives.push({ kind: "values", values: booleans });
  // The ranges before, between and after the excluded numbers are allowed.
  for (const [index, bound] of [...numbers, undefined].entries()) {
    alternatives.push(
      numberAlternative(node, { exclusiveMinimum: numbers[index - 1], exclusiveMaximum: bound }),
    );
  }
  const excluded = values.filter((value) => typeof value === "string");
  alternatives.push(stringAlternative({ excluded }));
  const arrays = values.filter((value) => Array.isArray(value));
  const objects = values.filter((value) => isObject(value));
  const entries = [...arrays, ...objects].reduce(
    (sum, value) => sum + Object.keys(value).length,
    0,
  );
  if (entries > 0) {
    refuseKeyword(
      keyword,
      extendPointer(pointer, keyword),
      "contains objects or arrays, which cannot be negated",
    );
  }
  alternatives.push(arrays.length > 0 ? { ...anyArray(pointer), min: 1 } : anyArray(pointer));
  alternatives.push(objects.length > 0 ? { ...anyObject(pointer), min: 1 } : anyObject(pointer));
  return alternatives;
}
