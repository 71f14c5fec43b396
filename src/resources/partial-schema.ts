import type { Schema } from "./describe-schema.ts";

/**
 * The schema of a merge into what `schema` describes: nothing is required, and null takes a field
 * away. Lists are replaced as a whole, so their entries stay as they are.
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
  // One flat union, so that a message still tells the branches apart.
  const branches = partial.anyOf ?? [partial];
  return { anyOf: [...branches, { type: "null" }], ...description };
}

function mapValues(
  schemas: Readonly<Record<string, Schema>>,
  change: (schema: Schema) => Schema,
): Record<string, Schema> {
  return Object.fromEntries(Object.entries(schemas).map(([key, schema]) => [key, change(schema)]));
}
