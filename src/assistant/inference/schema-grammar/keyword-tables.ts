export type SubschemaKind = "one" | "list" | "one-or-list" | "map";

/** Where a schema holds other schemas: in the keyword itself, in a list, or under names. */
export const subschemaKeywords: ReadonlyMap<string, SubschemaKind> = new Map([
  ["additionalProperties", "one"],
  ["unevaluatedProperties", "one"],
  ["propertyNames", "one"],
  ["additionalItems", "one"],
  ["unevaluatedItems", "one"],
  ["contains", "one"],
  ["not", "one"],
  ["if", "one"],
  ["then", "one"],
  ["else", "one"],
  ["items", "one-or-list"],
  ["allOf", "list"],
  ["anyOf", "list"],
  ["oneOf", "list"],
  ["prefixItems", "list"],
  ["properties", "map"],
  ["patternProperties", "map"],
  ["dependentSchemas", "map"],
  ["dependencies", "map"],
  ["$defs", "map"],
  ["definitions", "map"],
]);

/** Keywords that say what is valid, and that nobody here can enforce. Met, they refuse the schema. */
export const unsupportedKeywords: Readonly<Record<string, string>> = {
  $dynamicRef: "depends on where the schema is used, which is not followed; use $ref",
  $recursiveRef: "depends on where the schema is used, which is not followed; use $ref",
  divisibleBy: "is of draft 3; use multipleOf",
  disallow: "is of draft 3; use not",
  extends: "is of draft 3; use allOf",
};

/**
 * Keywords of objects, arrays, strings and numbers: they bind values of one type only, and are passed
 * over for others, as JSON Schema says.
 */
export const keywordsByType = {
  object: [
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "propertyNames",
    "minProperties",
    "maxProperties",
  ],
  array: [
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
  ],
  string: ["minLength", "maxLength", "pattern", "format"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"],
} as const;
