import { getOwn, isObject } from "./json-values.ts";

/**
 * Formats that by their own definition every text meets: OpenAPI's hints to whoever shows the value, and
 * how Pydantic writes paths and bytes.
 */
const unconstrainedFormats = new Set(["password", "binary", "path", "file-path", "directory-path"]);

/** Those that JSON Schema or Ajv know: what they mean does not depend on a pattern beside them. */
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
 * Whether a schema's `format` says more of its texts than the rest of the schema does. A name that no
 * standard has is only the name of the `pattern` beside it, also where that stands in `allOf`: so zod
 * writes `.includes("x")`, `.startsWith("x")`, nanoid and base64.
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
