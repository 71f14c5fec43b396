import { getOwn, isObject } from "../../../base/json.ts";

/**
 * Formats that by definition match every text: OpenAPI's hints for the display of a value, and Pydantic's
 * formats of paths and bytes.
 */
const unconstrainedFormats = new Set(["password", "binary", "path", "file-path", "directory-path"]);

/**
 * The formats that JSON Schema or Ajv defines. These formats restrict texts even if the schema has a `pattern`; any
 * other format does so only if the schema has no `pattern`.
 */
const standardFormats = new Set([
  "date-time",
  "date",
  "time",
  "duration",
  "email",
  "idn-email",
  "hostname",
  "idn-hostname",
  "ipv4",
  "ipv6",
  "uri",
  "uri-reference",
  "iri",
  "iri-reference",
  "uuid",
  "uri-template",
  "json-pointer",
  "relative-json-pointer",
  "regex",
  "byte",
  "url",
  "iso-time",
  "iso-date-time",
]);

/**
 * Returns true if `format` restricts texts further than the rest of the schema. A non-standard name is only
 * a label for the `pattern` in the same schema or its `allOf`: zod writes `.includes("x")`,
 * `.startsWith("x")`, nanoid and base64 that way.
 */
export function isConstrainingFormat(
  format: string,
  raw: Readonly<Record<string, unknown>>,
): boolean {
  if (unconstrainedFormats.has(format)) return false;
  return standardFormats.has(format) || !hasPattern(raw);
}

function hasPattern(raw: Readonly<Record<string, unknown>>): boolean {
  if (getOwn(raw, "pattern") !== undefined) return true;
  const all = getOwn(raw, "allOf");
  return (
    Array.isArray(all) && all.some((one) => isObject(one) && getOwn(one, "pattern") !== undefined)
  );
}
