import { isObject, own } from "./json.ts";
import { countAt, listAt, mapAt, numberAt, requiredOf, typesOf } from "./own-keywords.ts";
import type { Part } from "./part.ts";
import { anyArray, anyNumber, anyObject, anyString, anyValue, unseen } from "./part.ts";
import { pointerTo, refuse } from "./refusal.ts";
import type { SchemaNode } from "./schema-document.ts";
import { refusedKeywords, schemaPlaces } from "./schema-keywords.ts";
import type { ShapeContext } from "./shape-context.ts";

type Raw = Readonly<Record<string, unknown>>;

/**
 * What a schema does not allow: one keyword or another fails. `not`, `else` and oneOf ask for it. Keywords
 * whose opposite is no language that a grammar can be made of are refused.
 */
export function complementOf(shapes: ShapeContext, node: SchemaNode): readonly Part[] {
  const { raw, pointer } = node;
  if (typeof raw === "boolean") return raw ? [] : anyValue(pointer);
  const parts: Part[] = [];
  for (const keyword of Object.keys(raw)) {
    const opposite = Object.hasOwn(opposites, keyword) ? opposites[keyword] : undefined;
    if (opposite) parts.push(...opposite(shapes, node, raw));
    else if (!isSilent(raw, keyword)) {
      refuse(keyword, pointerTo(pointer, keyword), "has no opposite that can be enforced");
    }
  }
  return shapes.unique(parts.map(unseen));
}

/** Nothing follows from the keyword itself: annotations, and those that others read along with them. */
function isSilent(raw: Raw, keyword: string): boolean {
  if (keyword === "then" || keyword === "else") return true;
  if (keyword === "$defs" || keyword === "definitions" || keyword === "nullable") return true;
  if (keyword === "additionalItems") return !Array.isArray(own(raw, "items"));
  if (keyword === "minContains" || keyword === "maxContains")
    return !Object.hasOwn(raw, "contains");
  if (keyword === "uniqueItems") return own(raw, keyword) !== true;
  if (keyword === "additionalProperties" || keyword === "items") return own(raw, keyword) === true;
  return (
    !schemaPlaces.has(keyword) &&
    !Object.hasOwn(refusedKeywords, keyword) &&
    !["format", "multipleOf", "dependentRequired"].includes(keyword)
  );
}

type Opposite = (shapes: ShapeContext, node: SchemaNode, raw: Raw) => readonly Part[];

const opposites: Readonly<Record<string, Opposite>> = {
  type: (_, node, raw) => {
    const types = typesOf(node, raw);
    if (types.has("integer") && !types.has("number")) {
      refuse(
        "type",
        pointerTo(node.pointer, "type"),
        "names integer, whose opposite has no grammar",
      );
    }
    return anyValue(node.pointer).filter((part) => !types.has(part.kind));
  },
  const: (_, node, raw) => without(node, "const", [raw["const"]]),
  enum: (_, node, raw) => without(node, "enum", listAt(node, raw, "enum") ?? []),
  $ref: (shapes, node, raw) =>
    shapes.of(shapes.literal(shapes.document.resolve(node, String(raw["$ref"])), true)),
  not: (shapes, node) => shapes.of(shapes.child(node, "not")),
  allOf: (shapes, node, raw) =>
    (listAt(node, raw, "allOf") ?? []).flatMap((_, index) =>
      shapes.of(shapes.negated(shapes.child(node, "allOf", index))),
    ),
  anyOf: (shapes, node, raw) =>
    (listAt(node, raw, "anyOf") ?? []).reduce<readonly Part[]>(
      (parts, _, index) =>
        shapes.meet(parts, shapes.of(shapes.negated(shapes.child(node, "anyOf", index)))),
      anyValue(node.pointer),
    ),
  if: (shapes, node, raw) => {
    const condition = shapes.child(node, "if");
    const failing = (given: readonly Part[], keyword: string) =>
      own(raw, keyword) === undefined
        ? []
        : shapes.meet(given, shapes.of(shapes.negated(shapes.child(node, keyword))));
    return [
      ...failing(shapes.of(condition), "then"),
      ...failing(shapes.of(shapes.negated(condition)), "else"),
    ];
  },
  required: (_, node, raw) =>
    requiredOf(node, raw).map((name) => ({ ...anyObject(node.pointer), forbidden: [name] })),
  properties: (shapes, node, raw) =>
    Object.entries(mapAt(node, raw, "properties") ?? {}).flatMap(([name, schema]) =>
      schema === true || (isObject(schema) && Object.keys(schema).length === 0)
        ? []
        : [breaking(shapes, node, name)],
    ),
  minProperties: (_, node, raw) => {
    const min = countAt(node, raw, "minProperties") ?? 0;
    return min === 0 ? [] : [{ ...anyObject(node.pointer), max: min - 1 }];
  },
  maxProperties: (_, node, raw) => [
    { ...anyObject(node.pointer), min: (countAt(node, raw, "maxProperties") ?? 0) + 1 },
  ],
  minItems: (_, node, raw) => {
    const min = countAt(node, raw, "minItems") ?? 0;
    return min === 0 ? [] : [{ ...anyArray(node.pointer), max: min - 1 }];
  },
  maxItems: (_, node, raw) => [
    { ...anyArray(node.pointer), min: (countAt(node, raw, "maxItems") ?? 0) + 1 },
  ],
  minLength: (_, node, raw) => {
    const min = countAt(node, raw, "minLength") ?? 0;
    return min === 0 ? [] : [stringPart({ maxLength: min - 1 })];
  },
  maxLength: (_, node, raw) => [
    stringPart({ minLength: (countAt(node, raw, "maxLength") ?? 0) + 1 }),
  ],
  pattern: (_, node, raw) => {
    const pointer = pointerTo(node.pointer, "pattern");
    const source = String(own(raw, "pattern"));
    return [stringPart({ forbiddenPatterns: [{ source, keyword: "pattern", pointer }] })];
  },
  minimum: (_, node, raw) => {
    const bound = numberAt(node, raw, "minimum");
    return [
      numberPart(
        node,
        own(raw, "exclusiveMinimum") === true ? { maximum: bound } : { exclusiveMaximum: bound },
      ),
    ];
  },
  maximum: (_, node, raw) => {
    const bound = numberAt(node, raw, "maximum");
    return [
      numberPart(
        node,
        own(raw, "exclusiveMaximum") === true ? { minimum: bound } : { exclusiveMinimum: bound },
      ),
    ];
  },
  exclusiveMinimum: (_, node, raw) =>
    typeof own(raw, "exclusiveMinimum") === "boolean"
      ? []
      : [numberPart(node, { maximum: numberAt(node, raw, "exclusiveMinimum") })],
  exclusiveMaximum: (_, node, raw) =>
    typeof own(raw, "exclusiveMaximum") === "boolean"
      ? []
      : [numberPart(node, { minimum: numberAt(node, raw, "exclusiveMaximum") })],
};

/** An object whose property of this name is not as the schema wants it. */
function breaking(shapes: ShapeContext, node: SchemaNode, name: string): Part {
  const facet = {
    id: shapes.nextFacet(),
    properties: new Map([[name, shapes.negated(shapes.child(node, "properties", name))]]),
    patterns: [],
    additional: undefined,
    negative: true,
  };
  const pointer = pointerTo(node.pointer, "properties", name);
  return { ...anyObject(pointer), facets: [facet], required: [name] };
}

function stringPart(bounds: Partial<typeof anyString>): Part {
  return { kind: "string", constraints: { ...anyString, ...bounds } };
}

function numberPart(
  node: SchemaNode,
  bounds: Partial<
    Record<"minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", number | undefined>
  >,
): Part {
  return { kind: "number", constraints: { ...anyNumber(node.pointer), ...bounds } };
}

/** Everything but these values. */
function without(node: SchemaNode, keyword: string, values: readonly unknown[]): readonly Part[] {
  const { pointer } = node;
  const numbers = values.filter((value) => typeof value === "number").toSorted((a, b) => a - b);
  const parts: Part[] = [];
  if (!values.includes(null)) parts.push({ kind: "null" });
  const booleans = [true, false].filter((value) => !values.includes(value));
  if (booleans.length > 0) parts.push({ kind: "values", values: booleans });
  // Before, between and after the numbers.
  for (const [index, bound] of [...numbers, undefined].entries()) {
    parts.push(numberPart(node, { exclusiveMinimum: numbers[index - 1], exclusiveMaximum: bound }));
  }
  const excluded = values.filter((value) => typeof value === "string");
  parts.push(stringPart({ excluded }));
  const arrays = values.filter((value) => Array.isArray(value));
  const objects = values.filter((value) => isObject(value));
  const entries = [...arrays, ...objects].reduce(
    (sum, value) => sum + Object.keys(value).length,
    0,
  );
  if (entries > 0) {
    refuse(
      keyword,
      pointerTo(pointer, keyword),
      "holds objects or arrays, whose opposite has no grammar",
    );
  }
  parts.push(arrays.length > 0 ? { ...anyArray(pointer), min: 1 } : anyArray(pointer));
  parts.push(objects.length > 0 ? { ...anyObject(pointer), min: 1 } : anyObject(pointer));
  return parts;
}
