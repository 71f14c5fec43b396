import type { Schema } from "./describe-schema.ts";

/**
 * Returns the schema of a merge patch for `schema`: all fields are optional, and null removes a field. Lists are
 * replaced as a whole, so the schemas of their entries do not change.
 */
export function createPartialSchema(schema: Schema): Schema {
  if (schema.anyOf) return { ...schema, anyOf: schema.anyOf.map(createPartialSchema) };
  if (schema.type !== "object") return schema;
  const { required: _required, properties, patternProperties, ...rest } = schema;
  return {
    ...rest,
    ...(properties && { properties: mapValues(properties, allowNull) }),
    ...(patternProperties && { patternProperties: mapValues(patternProperties, allowNull) }),
  };
}

function allowNull(schema: Schema): Schema {
  const partial = createPartialSchema(schema);
  const description = partial.description === undefined ? {} : { description: partial.description };
  // `null` is added to an existing `anyOf`, because messages cannot tell alternatives of a nested `anyOf` apart.
  const branches = partial.anyOf ?? [partial];
  return { anyOf: [...branches, { type: "null" }], ...description };
}

function mapValues(
  schemas: Readonly<Record<string, Schema>>,
  change: (schema: Schema) => Schema,
): Record<string, Schema> {
  return Object.fromEntries(Object.entries(schemas).map(([key, schema]) => [key, change(schema)]));
}
