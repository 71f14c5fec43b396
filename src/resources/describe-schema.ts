import { parsePointer } from "./json-pointer.ts";

/** The subset of JSON Schema that the schemas of Berth's kinds use. */
export interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
}

/** The format in which the user wrote a value. Messages use the terms of this format, such as "mapping" for YAML. */
export type Syntax = "yaml" | "json";

const typeNames = {
  yaml: { object: "a mapping", array: "a list" },
  json: { object: "an object", array: "an array" },
} as const;

/** Describes the accepted values as the end of a sentence, such as "a whole number from 1 to 65535". */
export function describeExpectation(schema: Schema, syntax: Syntax = "yaml"): string {
  if (schema.enum)
    return formatAlternatives(
      schema.enum.filter((value) => value !== null).map((value) => JSON.stringify(value)),
    );
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.anyOf) {
    const branches = schema.anyOf.filter((branch) => branch.type !== "null");
    if (branches.every((branch) => branch.const !== undefined)) {
      return formatAlternatives(branches.map((branch) => JSON.stringify(branch.const)));
    }
    return (
      schema.description ??
      formatAlternatives(branches.map((branch) => describeExpectation(branch, syntax)))
    );
  }
  switch (getMainType(schema)) {
    case "string":
      if (schema.description !== undefined) return schema.description;
      return schema.pattern === undefined ? "text" : `text that matches ${schema.pattern}`;
    case "boolean":
      return "true or false";
    case "integer":
    case "number":
      return `${getMainType(schema) === "integer" ? "a whole number" : "a number"}${formatRange(schema)}`;
    case "array":
    case "object":
      return typeNames[syntax][getMainType(schema) === "array" ? "array" : "object"];
    case "null":
      return "nothing";
    default:
      return schema.description ?? "something else";
  }
}

/** Returns the type of all values of the schema except null. */
function getMainType({ type }: Schema): string | undefined {
  return typeof type === "object" ? type.find((name) => name !== "null") : type;
}

function formatRange(schema: Schema): string {
  if (schema.exclusiveMinimum !== undefined) return ` above ${schema.exclusiveMinimum}`;
  if (schema.minimum !== undefined && schema.maximum !== undefined) {
    return ` from ${schema.minimum} to ${schema.maximum}`;
  }
  if (schema.minimum !== undefined) return ` of at least ${schema.minimum}`;
  return schema.maximum === undefined ? "" : ` of at most ${schema.maximum}`;
}

function formatAlternatives(items: readonly string[]): string {
  if (items.length < 2) return items[0] ?? "nothing";
  return `${items.slice(0, -1).join(", ")} or ${items.at(-1)}`;
}

const SHOWN_CHARACTERS_MAX = 60;

/**
 * Describes a value for a message. Never shows values of variables and secrets, because messages are in logs, events
 * and responses.
 */
export function describeValue(value: unknown, path: string, syntax: Syntax = "yaml"): string {
  if (value === null) return "nothing (null)";
  if (Array.isArray(value)) return typeNames[syntax].array;
  if (typeof value === "object") return typeNames[syntax].object;
  const [root, field, ...rest] = parsePointer(path);
  const isHidden = root === "spec" && (field === "env" || field === "data" || rest.includes("env"));
  if (typeof value === "string") {
    if (isHidden) return "text";
    // A URL may contain a password, which is hidden.
    const safe = value.replace(/\/\/[^/@]*@/g, "//...@");
    const shown =
      safe.length > SHOWN_CHARACTERS_MAX ? `${safe.slice(0, SHOWN_CHARACTERS_MAX)}…` : safe;
    return JSON.stringify(shown);
  }
  if (isHidden) return typeof value === "boolean" ? "true or false" : "a number";
  return `the ${typeof value} ${JSON.stringify(value)}`;
}

/** Returns true if the value has the type of the schema, even if it is invalid otherwise. */
export function matchesType(schema: Schema, value: unknown): boolean {
  if (schema.const !== undefined) return typeof schema.const === typeof value;
  if (schema.anyOf) return schema.anyOf.some((branch) => matchesType(branch, value));
  switch (getMainType(schema)) {
    case "string":
      return typeof value === "string";
    case "boolean":
      return typeof value === "boolean";
    case "integer":
    case "number":
      return typeof value === "number";
    case "array":
      return Array.isArray(value);
    case "object":
      return value !== null && typeof value === "object" && !Array.isArray(value);
    case "null":
      return value === null;
    default:
      return true;
  }
}

export function isObjectSchema(schema: Schema): boolean {
  return getMainType(schema) === "object";
}
