import { canonicalJson } from "../../../base/canonical-json.ts";
import { isObject } from "../../../base/json.ts";
import type { JsonObject } from "../port.ts";
import { type Dialect, getDialect, getKeywordValueKind } from "./input-schema-keywords.ts";

/** Keywords that only describe arguments. Keywords that begin with `x-` are ignored too. */
const annotations: ReadonlySet<string> = new Set([
  "$schema",
  "$comment",
  "title",
  "description",
  "default",
  "examples",
  "deprecated",
  "readOnly",
  "writeOnly",
  // Pydantic adds the keyword `discriminator` of OpenAPI next to `oneOf`. It does not affect which arguments are valid:
  // `oneOf` alone decides that.
  "discriminator",
]);

/** Keywords whose list is a set: the order of its values has no meaning. */
const setKeywords: ReadonlySet<string> = new Set(["type", "enum", "required"]);

/** Keywords that have no effect if their object or list is empty. */
const emptyKeywords: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "required",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependentRequired",
  "dependencies",
]);

/**
 * Returns the schema without the parts that do not affect which arguments are valid, so that schemas that differ only
 * in such parts become equal. MCP libraries add titles and descriptions to the schemas of a program, which the author
 * of a manifest does not know. Throws RangeError if the schema is nested too deeply.
 */
export function reduceSchema(schema: JsonObject): unknown {
  return reduceSubschema(schema, getDialect(schema) ?? "2020-12");
}

function reduceSubschema(schema: unknown, dialect: Dialect): unknown {
  if (schema === true) return {};
  if (!isObject(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([keyword]) => !annotations.has(keyword) && !keyword.startsWith("x-"))
      .map(([keyword, value]) => [keyword, reduceKeyword(keyword, value, dialect)] as const)
      .filter(([keyword, value]) => !(emptyKeywords.has(keyword) && isEmpty(value))),
  );
}

function reduceKeyword(keyword: string, value: unknown, dialect: Dialect): unknown {
  const reduce = (item: unknown) => reduceSubschema(item, dialect);
  switch (getKeywordValueKind(dialect, keyword)) {
    case "schema":
      return reduce(value);
    case "list":
      return Array.isArray(value) ? value.map(reduce) : value;
    case "schema-or-list":
      return Array.isArray(value) ? value.map(reduce) : reduce(value);
    case "map":
    case "map-or-names":
      if (!isObject(value)) return value;
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, reduce(item)]));
    default:
      return Array.isArray(value) && setKeywords.has(keyword) ? sortValues(value) : value;
  }
}

function sortValues(values: readonly unknown[]): readonly unknown[] {
  return values
    .map((value) => ({ value, text: canonicalJson(value) }))
    .toSorted((a, b) => (a.text < b.text ? -1 : 1))
    .map(({ value }) => value);
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value)
    ? value.length === 0
    : isObject(value) && Object.keys(value).length === 0;
}
