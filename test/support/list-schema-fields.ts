import { bytesPattern, cpuPattern, durationPattern } from "../../src/base/units.ts";
import { namePattern } from "../../src/resources/field-schemas.ts";

/** A field of a schema: its path (`healthCheck.path`, `volumes[].name`, `env.<key>.secret`) and its type. */
export interface SchemaField {
  readonly path: string;
  readonly type: string;
  readonly required: boolean;
}

interface Schema {
  readonly type?: string;
  readonly const?: string | number | boolean;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
}

/** Returns every field of an object schema, parents before children. */
export function listSchemaFields(schema: unknown): SchemaField[] {
  const plain: Schema = JSON.parse(JSON.stringify(schema));
  return listFieldsBelow(plain, "");
}

function listFieldsBelow(schema: Schema, prefix: string): SchemaField[] {
  if (schema.anyOf) {
    const branches = schema.anyOf
      .map((branch) => listFieldsBelow(branch, prefix))
      .filter((b) => b.length > 0);
    const fields = branches.flat();
    // A field that several branches of `anyOf` have is listed once. It is required if all branches that have it require
    // it; a field at the top level must also be in every branch.
    return [...new Set(fields.map((field) => field.path))].map((path) => {
      const same = fields.filter((field) => field.path === path);
      const isDeep = path.slice(prefix.length).includes(".");
      const required = (isDeep || same.length === branches.length) && same.every((f) => f.required);
      return { path, type: same[0]?.type ?? "", required };
    });
  }
  if (schema.items)
    return listFieldsBelow(schema.items, prefix === "" ? "" : `${prefix.slice(0, -1)}[].`);
  const named = Object.entries(schema.properties ?? {}).flatMap(([name, field]) => [
    {
      path: `${prefix}${name}`,
      type: describeType(field),
      required: schema.required?.includes(name) ?? false,
    },
    ...listFieldsBelow(field, `${prefix}${name}.`),
  ]);
  const keyed = Object.values(schema.patternProperties ?? {}).flatMap((field) =>
    listFieldsBelow(field, `${prefix}<key>.`),
  );
  return [...named, ...keyed];
}

const textTypes: Readonly<Record<string, string>> = {
  [durationPattern]: "duration",
  [bytesPattern]: "memory",
  [cpuPattern]: "CPUs",
  [namePattern]: "name",
};

function describeType(schema: Schema): string {
  if (schema.const !== undefined) return `\`${String(schema.const)}\``;
  if (schema.anyOf)
    return [...new Set(schema.anyOf.map((branch) => describeType(branch)))].join(" or ");
  switch (schema.type) {
    case "string":
      return textTypes[schema.pattern ?? ""] ?? "text";
    case "integer":
      return `whole number${formatRange(schema)}`;
    case "number":
      return "number";
    case "boolean":
      return "true/false";
    case "array":
      return `list of ${schema.items ? describeType(schema.items) : "values"}`;
    case "object":
      return "mapping";
    default:
      return "anything";
  }
}

function formatRange({ minimum, maximum }: Schema): string {
  return minimum === undefined || maximum === undefined ? "" : ` ${minimum} to ${maximum}`;
}
