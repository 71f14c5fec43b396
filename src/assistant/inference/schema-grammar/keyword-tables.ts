export type SubschemaKind = "one" | "list" | "one-or-list" | "map";

/** The keywords that contain schemas: as the value itself, in a list, or as a map by name. */
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

/** Assertion keywords that cannot be enforced, with the reason; a schema that has one is refused. */
export const unsupportedKeywords: Readonly<Record<string, string>> = {
  $dynamicRef: "depends on the dynamic scope, which is not supported; use $ref",
  $recursiveRef: "depends on the dynamic scope, which is not supported; use $ref",
  divisibleBy: "is from draft 3; use multipleOf",
  disallow: "is from draft 3; use not",
  extends: "is from draft 3; use allOf",
};

/**
 * The keywords that apply to values of one type only; JSON Schema ignores them for values of other types.
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
