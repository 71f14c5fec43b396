import { isObject, isStrings, own } from "./json.ts";
import { formatBinds } from "./named-formats.ts";
import type { ArrayFacet, ArrayPart, ObjectFacet, ObjectPart, Part, Schemas } from "./part.ts";
import { anyArray, anyNumber, anyObject, anyString } from "./part.ts";
import { pointerTo, refuse } from "./refusal.ts";
import type { NumberConstraints, StringConstraints } from "./scalars.ts";
import type { SchemaNode } from "./schema-document.ts";

type Raw = Readonly<Record<string, unknown>>;

/** What reading a schema's own keywords needs of the document around it. */
export interface Places {
  /** The schema at these steps below the node. */
  child(node: SchemaNode, ...steps: readonly (string | number)[]): Schemas;
  nextFacet(): number;
}

const typeNames = ["null", "boolean", "number", "string", "array", "object"] as const;

/** The types that `type` leaves; `integer` is told apart from `number`. All of them without it. */
export function typesOf(node: SchemaNode, raw: Raw): ReadonlySet<string> {
  const written = own(raw, "type");
  if (written === undefined) return new Set(typeNames);
  const list = typeof written === "string" ? [written] : written;
  const at = pointerTo(node.pointer, "type");
  if (!isStrings(list))
    return refuse("type", at, "has to be the name of a type, or a list of them");
  for (const name of list) {
    if (name !== "integer" && !typeNames.some((known) => known === name)) {
      refuse("type", at, `names "${name}", which is no type of JSON`);
    }
  }
  // OpenAPI 3.0; Ajv reads it the same way.
  return new Set(own(raw, "nullable") === true ? [...list, "null"] : list);
}

/** The parts that the keywords of one schema leave, without those that apply other schemas in place. */
export function ownParts(node: SchemaNode, raw: Raw, places: Places): readonly Part[] {
  const types = typesOf(node, raw);
  const parts: Part[] = [];
  if (types.has("null")) parts.push({ kind: "null" });
  if (types.has("boolean")) parts.push({ kind: "boolean" });
  if (types.has("number") || types.has("integer")) {
    parts.push({ kind: "number", constraints: numberOf(node, raw, !types.has("number")) });
  }
  if (types.has("string")) {
    const constraints = stringOf(node, raw);
    if ((constraints.minLength ?? 0) <= (constraints.maxLength ?? Number.POSITIVE_INFINITY)) {
      parts.push({ kind: "string", constraints });
    }
  }
  if (types.has("array")) parts.push(...arrayOf(node, raw, places));
  if (types.has("object")) parts.push(...objectOf(node, raw, places));
  return parts;
}

function numberOf(node: SchemaNode, raw: Raw, integer: boolean): NumberConstraints {
  let minimum = numberAt(node, raw, "minimum");
  let maximum = numberAt(node, raw, "maximum");
  // Draft 4 says with a boolean that the bound beside it is excluded.
  const openBelow = own(raw, "exclusiveMinimum");
  const openAbove = own(raw, "exclusiveMaximum");
  let exclusiveMinimum: number | undefined;
  let exclusiveMaximum: number | undefined;
  if (typeof openBelow === "boolean") {
    if (openBelow) [exclusiveMinimum, minimum] = [minimum, undefined];
  } else exclusiveMinimum = numberAt(node, raw, "exclusiveMinimum");
  if (typeof openAbove === "boolean") {
    if (openAbove) [exclusiveMaximum, maximum] = [maximum, undefined];
  } else exclusiveMaximum = numberAt(node, raw, "exclusiveMaximum");
  const multipleOf = numberAt(node, raw, "multipleOf");
  if (multipleOf !== undefined && multipleOf <= 0) {
    refuse("multipleOf", pointerTo(node.pointer, "multipleOf"), "has to be more than 0");
  }
  const format = numericFormats.get(String(own(raw, "format")));
  return {
    ...anyNumber(node.pointer),
    integer: integer || format?.integer === true,
    minimum: greatest(minimum, format?.minimum),
    maximum: least(maximum, format?.maximum),
    exclusiveMinimum,
    exclusiveMaximum: least(exclusiveMaximum, format?.below),
    multipleOf,
  };
}

/** OpenAPI's; every other format is about strings, and binds no number. */
const numericFormats: ReadonlyMap<
  string,
  { integer: true; minimum: number; maximum?: number; below?: number }
> = new Map([
  ["int32", { integer: true, minimum: -(2 ** 31), maximum: 2 ** 31 - 1 }],
  // 2^63 - 1 is no double: the bound is excluded instead.
  ["int64", { integer: true, minimum: -(2 ** 63), below: 2 ** 63 }],
]);

function greatest(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.max(left, right);
}

function least(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.min(left, right);
}

function stringOf(node: SchemaNode, raw: Raw): StringConstraints {
  const named = (keyword: "pattern" | "format") => {
    const source = own(raw, keyword);
    if (source === undefined) return [];
    const pointer = pointerTo(node.pointer, keyword);
    if (typeof source !== "string") return refuse(keyword, pointer, "has to be a string");
    if (keyword === "format" && !formatBinds(source, raw)) return [];
    return [{ source, keyword, pointer }];
  };
  return {
    ...anyString,
    minLength: countAt(node, raw, "minLength"),
    maxLength: countAt(node, raw, "maxLength"),
    patterns: named("pattern"),
    formats: named("format"),
  };
}

function arrayOf(node: SchemaNode, raw: Raw, places: Places): readonly ArrayPart[] {
  const min = countAt(node, raw, "minItems") ?? 0;
  const max = countAt(node, raw, "maxItems");
  if (max !== undefined && min > max) return [];
  const facet = arrayFacetOf(node, raw, places);
  const contains = own(raw, "contains") !== undefined;
  const fewest = countAt(node, raw, "minContains") ?? 1;
  const most = countAt(node, raw, "maxContains");
  return [
    {
      ...anyArray(node.pointer),
      facets: facet ? [facet] : [],
      min,
      max,
      unique: own(raw, "uniqueItems") === true,
      contains:
        contains && (fewest > 0 || most !== undefined)
          ? [
              {
                schemas: places.child(node, "contains"),
                min: fewest,
                max: most,
                pointer: pointerTo(node.pointer, "contains"),
              },
            ]
          : [],
    },
  ];
}

function arrayFacetOf(node: SchemaNode, raw: Raw, places: Places): ArrayFacet | undefined {
  const items = own(raw, "items");
  const tuple = own(raw, "prefixItems");
  if (tuple !== undefined && !Array.isArray(tuple)) {
    return refuse("prefixItems", pointerTo(node.pointer, "prefixItems"), "has to be a list");
  }
  if (Array.isArray(items)) {
    // Until 2019-09, a list in `items` was what `prefixItems` is since.
    if (tuple) refuse("items", pointerTo(node.pointer, "items"), "is a list beside prefixItems");
    const rest = own(raw, "additionalItems");
    return {
      id: places.nextFacet(),
      negative: false,
      prefix: items.map((_, index) => places.child(node, "items", index)),
      rest: rest === undefined ? undefined : places.child(node, "additionalItems"),
    };
  }
  if (items === undefined && tuple === undefined) return undefined;
  return {
    id: places.nextFacet(),
    negative: false,
    prefix: (tuple ?? []).map((_: unknown, index: number) =>
      places.child(node, "prefixItems", index),
    ),
    rest: items === undefined ? undefined : places.child(node, "items"),
  };
}

function objectOf(node: SchemaNode, raw: Raw, places: Places): readonly ObjectPart[] {
  const min = countAt(node, raw, "minProperties") ?? 0;
  const max = countAt(node, raw, "maxProperties");
  const required = requiredOf(node, raw);
  if (max !== undefined && Math.max(min, required.length) > max) return [];
  const facet = objectFacetOf(node, raw, places);
  return [
    {
      ...anyObject(node.pointer),
      facets: facet ? [facet] : [],
      required,
      min,
      max,
      names: own(raw, "propertyNames") === undefined ? [] : places.child(node, "propertyNames"),
    },
  ];
}

function objectFacetOf(node: SchemaNode, raw: Raw, places: Places): ObjectFacet | undefined {
  const properties = mapAt(node, raw, "properties");
  const patterns = mapAt(node, raw, "patternProperties");
  const additional = own(raw, "additionalProperties");
  if (!properties && !patterns && additional === undefined) return undefined;
  return {
    id: places.nextFacet(),
    properties: new Map(
      Object.keys(properties ?? {}).map((name) => [name, places.child(node, "properties", name)]),
    ),
    patterns: Object.keys(patterns ?? {}).map((source) => ({
      pattern: {
        source,
        keyword: "patternProperties",
        pointer: pointerTo(node.pointer, "patternProperties", source),
      },
      schemas: places.child(node, "patternProperties", source),
    })),
    additional: additional === undefined ? undefined : places.child(node, "additionalProperties"),
    negative: false,
  };
}

export function requiredOf(node: SchemaNode, raw: Raw): readonly string[] {
  const required = own(raw, "required");
  if (required === undefined) return [];
  if (!isStrings(required)) {
    return refuse("required", pointerTo(node.pointer, "required"), "has to be a list of names");
  }
  return [...new Set(required)];
}

export function mapAt(node: SchemaNode, raw: Raw, keyword: string): Raw | undefined {
  const value = own(raw, keyword);
  if (value === undefined || isObject(value)) return value;
  return refuse(keyword, pointerTo(node.pointer, keyword), "has to be an object");
}

export function listAt(
  node: SchemaNode,
  raw: Raw,
  keyword: string,
): readonly unknown[] | undefined {
  const value = own(raw, keyword);
  if (value === undefined || Array.isArray(value)) return value;
  return refuse(keyword, pointerTo(node.pointer, keyword), "has to be a list");
}

export function countAt(node: SchemaNode, raw: Raw, keyword: string): number | undefined {
  const value = numberAt(node, raw, keyword);
  if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) return value;
  return refuse(keyword, pointerTo(node.pointer, keyword), "has to be a whole number from 0 on");
}

export function numberAt(node: SchemaNode, raw: Raw, keyword: string): number | undefined {
  const value = own(raw, keyword);
  if (value === undefined || (typeof value === "number" && Number.isFinite(value))) return value;
  return refuse(keyword, pointerTo(node.pointer, keyword), "has to be a number");
}
