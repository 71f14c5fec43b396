import { getOwn, isObject } from "../../../base/json.ts";
import type { JsonObject } from "../port.ts";
import { pointerBelow } from "./json-pointer.ts";

/** The two JSON Schema drafts that published tools use. A schema without `$schema` uses 2020-12, as MCP defines. */
export type Dialect = "2020-12" | "draft-07";

export function getDialect(schema: JsonObject): Dialect | undefined {
  const declared = getOwn(schema, "$schema");
  if (declared === undefined) return "2020-12";
  if (typeof declared !== "string") return undefined;
  const name = declared.replace(/#$/, "");
  if (/^https?:\/\/json-schema\.org\/draft\/2020-12\/schema$/.test(name)) return "2020-12";
  return /^https?:\/\/json-schema\.org\/draft-07\/schema$/.test(name) ? "draft-07" : undefined;
}

/** The kind of value that a keyword has: a schema, several schemas, or no schema. */
type KeywordValueKind = "schema" | "list" | "map" | "schema-or-list" | "map-or-names" | "plain";

const shared: Readonly<Record<string, KeywordValueKind>> = {
  additionalProperties: "schema",
  propertyNames: "schema",
  contains: "schema",
  not: "schema",
  allOf: "list",
  anyOf: "list",
  oneOf: "list",
  properties: "map",
  patternProperties: "map",
  $defs: "map",
  definitions: "map",
  // The map is built from a list, because linters mistake an object literal with a member `then` for a promise.
  ...Object.fromEntries(["if", "then", "else"].map((keyword) => [keyword, "schema"] as const)),
  ...Object.fromEntries(
    [
      ["$ref", "$comment", "title", "description", "default", "examples", "readOnly", "writeOnly"],
      ["type", "enum", "const", "nullable", "format", "contentMediaType", "contentEncoding"],
      ["multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"],
      ["maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems"],
      ["maxProperties", "minProperties", "required", "deprecated"],
    ]
      .flat()
      .map((keyword) => [keyword, "plain"] as const),
  ),
};

const keywords: Readonly<Record<Dialect, Readonly<Record<string, KeywordValueKind>>>> = {
  "2020-12": {
    ...shared,
    items: "schema",
    prefixItems: "list",
    unevaluatedItems: "schema",
    unevaluatedProperties: "schema",
    dependentSchemas: "map",
    dependentRequired: "plain",
    minContains: "plain",
    maxContains: "plain",
    contentSchema: "plain",
  },
  "draft-07": {
    ...shared,
    items: "schema-or-list",
    additionalItems: "schema",
    dependencies: "map-or-names",
  },
};

export function knownKeywords(dialect: Dialect): readonly string[] {
  return Object.keys(keywords[dialect]);
}

export function isKnownKeyword(dialect: Dialect, keyword: string): boolean {
  return Object.hasOwn(keywords[dialect], keyword);
}

/** Returns the kind of value that a keyword has; undefined for a keyword that the draft does not define. */
export function getKeywordValueKind(
  dialect: Dialect,
  keyword: string,
): KeywordValueKind | undefined {
  return isKnownKeyword(dialect, keyword) ? keywords[dialect][keyword] : undefined;
}

export interface Subschema {
  readonly schema: unknown;
  readonly pointer: string;
  readonly keyword: string;
}

/** Returns the direct subschemas of a schema, for all of its keywords. */
export function subschemas(schema: JsonObject, pointer: string, dialect: Dialect): Subschema[] {
  return Object.entries(schema).flatMap(([keyword, value]) => {
    const holds = getKeywordValueKind(dialect, keyword);
    const at = pointerBelow(pointer, keyword);
    if (holds === "schema" || (holds === "schema-or-list" && !Array.isArray(value))) {
      return [{ schema: value, pointer: at, keyword }];
    }
    if (holds === "list" || holds === "schema-or-list") {
      if (!Array.isArray(value)) return [];
      return value.map((item: unknown, index) => ({
        schema: item,
        pointer: pointerBelow(at, index),
        keyword,
      }));
    }
    if (holds !== "map" && holds !== "map-or-names") return [];
    if (!isObject(value)) return [];
    return Object.entries(value)
      .filter(([, item]) => holds === "map" || !Array.isArray(item))
      .map(([name, item]) => ({ schema: item, pointer: pointerBelow(at, name), keyword }));
  });
}

const types = ["null", "boolean", "object", "array", "number", "string", "integer"];

export function isTypeName(value: unknown): boolean {
  return typeof value === "string" && types.includes(value);
}

export function typeNames(): readonly string[] {
  return types;
}

/** Returns the types that a schema names; an empty list if it names none. */
export function getTypes(schema: JsonObject): readonly string[] {
  const type = getOwn(schema, "type");
  const named = Array.isArray(type) ? type : [type];
  return named.filter((name): name is string => typeof name === "string");
}
