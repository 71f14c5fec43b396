import { getOwn, isObject } from "../../../base/json.ts";
import { isConstrainingFormat } from "./constraining-formats.ts";
import { maxDefined, minDefined } from "./intersect.ts";
import { isStringArray } from "./json-values.ts";
import type {
  Alternative,
  ArrayAlternative,
  ArrayFacet,
  ObjectAlternative,
  ObjectFacet,
  SchemaConjunction,
} from "./normal-form.ts";
import { anyArray, anyNumber, anyObject, anyString } from "./normal-form.ts";
import type { NumberConstraints, StringConstraints } from "./scalar-constraints.ts";
import type { SchemaNode } from "./schema-document.ts";
import { extendPointer, refuseKeyword } from "./schema-refusal.ts";

type Raw = Readonly<Record<string, unknown>>;

/** The methods of SchemaNormalizer that the readers of assertion keywords call. */
export interface SubschemaContext {
  /** Returns the schema at the path `steps` below the node. */
  child(node: SchemaNode, ...steps: readonly (string | number)[]): SchemaConjunction;
  nextFacetId(): number;
}

const typeNames = ["null", "boolean", "number", "string", "array", "object"] as const;

/**
 * Returns the types that `type` allows, or all types if the schema has no `type`. `integer` and `number` are separate
 * types.
 */
export function readTypes(node: SchemaNode, raw: Raw): ReadonlySet<string> {
  const written = getOwn(raw, "type");
  if (written === undefined) return new Set(typeNames);
  const list = typeof written === "string" ? [written] : written;
  const at = extendPointer(node.pointer, "type");
  if (!isStringArray(list))
    return refuseKeyword("type", at, "must be the name of a type, or a list of names");
  for (const name of list) {
    if (name !== "integer" && !typeNames.some((known) => known === name)) {
      refuseKeyword("type", at, `contains "${name}", which is not a JSON type`);
    }
  }
  // OpenAPI 3.0 has the keyword `nullable`, which Ajv also applies.
  return new Set(getOwn(raw, "nullable") === true ? [...list, "null"] : list);
}

/**
 * Returns the kinds of values that the assertions of a schema object allow, such as `type` and `minimum`. Its in-place
 * applicators, such as `anyOf`, are not read.
 */
export function readAssertions(
  node: SchemaNode,
  raw: Raw,
  subschemas: SubschemaContext,
): readonly Alternative[] {
  const types = readTypes(node, raw);
  const alternatives: Alternative[] = [];
  if (types.has("null")) alternatives.push({ kind: "null" });
  if (types.has("boolean")) alternatives.push({ kind: "boolean" });
  if (types.has("number") || types.has("integer")) {
    alternatives.push({
      kind: "number",
      constraints: readNumberAssertions(node, raw, !types.has("number")),
    });
  }
  if (types.has("string")) {
    const constraints = readStringAssertions(node, raw);
    if ((constraints.minLength ?? 0) <= (constraints.maxLength ?? Number.POSITIVE_INFINITY)) {
      alternatives.push({ kind: "string", constraints });
    }
  }
  if (types.has("array")) alternatives.push(...readArrayAssertions(node, raw, subschemas));
  if (types.has("object")) alternatives.push(...readObjectAssertions(node, raw, subschemas));
  return alternatives;
}

function readNumberAssertions(node: SchemaNode, raw: Raw, integer: boolean): NumberConstraints {
  let minimum = readNumber(node, raw, "minimum");
  let maximum = readNumber(node, raw, "maximum");
  // If exclusiveMinimum and exclusiveMaximum are booleans, as in draft 4, they make minimum and maximum exclusive.
  const openBelow = getOwn(raw, "exclusiveMinimum");
  const openAbove = getOwn(raw, "exclusiveMaximum");
  let exclusiveMinimum: number | undefined;
  let exclusiveMaximum: number | undefined;
  if (typeof openBelow === "boolean") {
    if (openBelow) [exclusiveMinimum, minimum] = [minimum, undefined];
  } else exclusiveMinimum = readNumber(node, raw, "exclusiveMinimum");
  if (typeof openAbove === "boolean") {
    if (openAbove) [exclusiveMaximum, maximum] = [maximum, undefined];
  } else exclusiveMaximum = readNumber(node, raw, "exclusiveMaximum");
  const multipleOf = readNumber(node, raw, "multipleOf");
  if (multipleOf !== undefined && multipleOf <= 0) {
    refuseKeyword(
      "multipleOf",
      extendPointer(node.pointer, "multipleOf"),
      "must be greater than 0",
    );
  }
  const format = numericFormats.get(String(getOwn(raw, "format")));
  return {
    ...anyNumber(node.pointer),
    integer: integer || format?.integer === true,
    minimum: maxDefined(minimum, format?.minimum),
    maximum: minDefined(maximum, format?.maximum),
    exclusiveMinimum,
    exclusiveMaximum: minDefined(exclusiveMaximum, format?.below),
    multipleOf,
  };
}

/** OpenAPI's formats of numbers; all other formats apply to strings. */
const numericFormats: ReadonlyMap<
  string,
  { integer: true; minimum: number; maximum?: number; below?: number }
> = new Map([
  ["int32", { integer: true, minimum: -(2 ** 31), maximum: 2 ** 31 - 1 }],
  // 2^63 - 1 cannot be represented as a double, so `below` is 2^63.
  ["int64", { integer: true, minimum: -(2 ** 63), below: 2 ** 63 }],
]);

function readStringAssertions(node: SchemaNode, raw: Raw): StringConstraints {
  const named = (keyword: "pattern" | "format") => {
    const source = getOwn(raw, keyword);
    if (source === undefined) return [];
    const pointer = extendPointer(node.pointer, keyword);
    if (typeof source !== "string") return refuseKeyword(keyword, pointer, "must be a string");
    if (keyword === "format" && !isConstrainingFormat(source, raw)) return [];
    return [{ source, keyword, pointer }];
  };
  return {
    ...anyString,
    minLength: readCount(node, raw, "minLength"),
    maxLength: readCount(node, raw, "maxLength"),
    patterns: named("pattern"),
    formats: named("format"),
  };
}

function readArrayAssertions(
  node: SchemaNode,
  raw: Raw,
  subschemas: SubschemaContext,
): readonly ArrayAlternative[] {
  const min = readCount(node, raw, "minItems") ?? 0;
  const max = readCount(node, raw, "maxItems");
  if (max !== undefined && min > max) return [];
  const facet = readArrayFacet(node, raw, subschemas);
  const contains = getOwn(raw, "contains") !== undefined;
  const fewest = readCount(node, raw, "minContains") ?? 1;
  const most = readCount(node, raw, "maxContains");
  return [
    {
      ...anyArray(node.pointer),
      facets: facet ? [facet] : [],
      min,
      max,
      unique: getOwn(raw, "uniqueItems") === true,
      contains:
        contains && (fewest > 0 || most !== undefined)
          ? [
              {
                schemas: subschemas.child(node, "contains"),
                min: fewest,
                max: most,
                pointer: extendPointer(node.pointer, "contains"),
              },
            ]
          : [],
    },
  ];
}

function readArrayFacet(
  node: SchemaNode,
  raw: Raw,
  subschemas: SubschemaContext,
): ArrayFacet | undefined {
  const items = getOwn(raw, "items");
  const tuple = getOwn(raw, "prefixItems");
  if (tuple !== undefined && !Array.isArray(tuple)) {
    return refuseKeyword(
      "prefixItems",
      extendPointer(node.pointer, "prefixItems"),
      "must be a list",
    );
  }
  if (Array.isArray(items)) {
    // A list in `items` has the meaning of `prefixItems`, as up to draft 2019-09.
    if (tuple)
      refuseKeyword(
        "items",
        extendPointer(node.pointer, "items"),
        "cannot be a list together with prefixItems",
      );
    const rest = getOwn(raw, "additionalItems");
    return {
      id: subschemas.nextFacetId(),
      negative: false,
      prefix: items.map((_, index) => subschemas.child(node, "items", index)),
      rest: rest === undefined ? undefined : subschemas.child(node, "additionalItems"),
    };
  }
  if (items === undefined && tuple === undefined) return undefined;
  return {
    id: subschemas.nextFacetId(),
    negative: false,
    prefix: (tuple ?? []).map((_: unknown, index: number) =>
      subschemas.child(node, "prefixItems", index),
    ),
    rest: items === undefined ? undefined : subschemas.child(node, "items"),
  };
}

function readObjectAssertions(
  node: SchemaNode,
  raw: Raw,
  subschemas: SubschemaContext,
): readonly ObjectAlternative[] {
  const min = readCount(node, raw, "minProperties") ?? 0;
  const max = readCount(node, raw, "maxProperties");
  const required = readRequired(node, raw);
  if (max !== undefined && Math.max(min, required.length) > max) return [];
  const facet = readObjectFacet(node, raw, subschemas);
  return [
    {
      ...anyObject(node.pointer),
      facets: facet ? [facet] : [],
      required,
      min,
      max,
      names:
        getOwn(raw, "propertyNames") === undefined ? [] : subschemas.child(node, "propertyNames"),
    },
  ];
}

function readObjectFacet(
  node: SchemaNode,
  raw: Raw,
  subschemas: SubschemaContext,
): ObjectFacet | undefined {
  const properties = readMap(node, raw, "properties");
  const patterns = readMap(node, raw, "patternProperties");
  const additional = getOwn(raw, "additionalProperties");
  if (!properties && !patterns && additional === undefined) return undefined;
  return {
    id: subschemas.nextFacetId(),
    properties: new Map(
      Object.keys(properties ?? {}).map((name) => [
        name,
        subschemas.child(node, "properties", name),
      ]),
    ),
    patterns: Object.keys(patterns ?? {}).map((source) => ({
      pattern: {
        source,
        keyword: "patternProperties",
        pointer: extendPointer(node.pointer, "patternProperties", source),
      },
      schemas: subschemas.child(node, "patternProperties", source),
    })),
    additional:
      additional === undefined ? undefined : subschemas.child(node, "additionalProperties"),
    negative: false,
  };
}

export function readRequired(node: SchemaNode, raw: Raw): readonly string[] {
  const required = getOwn(raw, "required");
  if (required === undefined) return [];
  if (!isStringArray(required)) {
    return refuseKeyword(
      "required",
      extendPointer(node.pointer, "required"),
      "must be a list of names",
    );
  }
  return [...new Set(required)];
}

export function readMap(node: SchemaNode, raw: Raw, keyword: string): Raw | undefined {
  const value = getOwn(raw, keyword);
  if (value === undefined || isObject(value)) return value;
  return refuseKeyword(keyword, extendPointer(node.pointer, keyword), "must be an object");
}

export function readList(
  node: SchemaNode,
  raw: Raw,
  keyword: string,
): readonly unknown[] | undefined {
  const value = getOwn(raw, keyword);
  if (value === undefined || Array.isArray(value)) return value;
  return refuseKeyword(keyword, extendPointer(node.pointer, keyword), "must be a list");
}

export function readCount(node: SchemaNode, raw: Raw, keyword: string): number | undefined {
  const value = readNumber(node, raw, keyword);
  if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) return value;
  return refuseKeyword(
    keyword,
    extendPointer(node.pointer, keyword),
    "must be a whole number of 0 or more",
  );
}

export function readNumber(node: SchemaNode, raw: Raw, keyword: string): number | undefined {
  const value = getOwn(raw, keyword);
  if (value === undefined || (typeof value === "number" && Number.isFinite(value))) return value;
  return refuseKeyword(keyword, extendPointer(node.pointer, keyword), "must be a number");
}
