export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/**
 * Rewrites two constructs of a schema that generators of API clients handle wrongly. A lone `patternProperties`, for
 * which they generate an empty class, becomes `additionalProperties`. An object type that includes null, for which they
 * generate a module that cannot be imported, becomes an `anyOf` with null.
 */
export function toGeneratorSchema(value: Json): Json {
  const mapped = mapChildren(value, toGeneratorSchema);
  // A component's own schema says whether the component may be null, so a reference to it is left unchanged.
  if (!isObject(mapped) || "x-component" in mapped) return mapped;
  const { patternProperties, ...rest } = mapped;
  if (isObject(patternProperties)) {
    const [pattern = ""] = Object.keys(patternProperties);
    rest["additionalProperties"] = patternProperties[pattern] ?? true;
    if (!/^\^\(?\.\*\)?\$$/.test(pattern)) rest["propertyNames"] = { pattern };
  }
  if (!isNullableObject(rest)) return rest;
  const { description, ...object } = rest;
  return {
    ...(description === undefined ? {} : { description }),
    anyOf: [{ ...object, type: "object" }, { type: "null" }],
  };
}

/**
 * Returns the schema without null at its top level. A request body expresses null by `required: false`, and a use of a
 * named schema by an `anyOf` with null.
 */
export function withoutNull(schema: Json): Json {
  return isObject(schema) && isNullableObject(schema) ? { ...schema, type: "object" } : schema;
}

export function isNullableObject({ type }: JsonObject): boolean {
  return Array.isArray(type) && type.includes("object");
}

export function mapChildren(value: Json, change: (child: Json) => Json): Json {
  if (Array.isArray(value)) return value.map((item) => change(item));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, change(item)]));
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
