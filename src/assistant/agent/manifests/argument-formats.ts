import type { Format } from "ajv";
import { fullFormats } from "ajv-formats/dist/formats.js";

/**
 * Values with more characters than this are rejected, because some of the formats' regular expressions take quadratic
 * time. No valid value is longer in practice.
 */
const FORMATTED_CHARS_MAX = 4096;

/** The formats whose values may have any length: their checks either accept everything or scan the text once. */
const unboundedFormats = new Set([
  "int32",
  "int64",
  "float",
  "double",
  "password",
  "binary",
  "byte",
]);

/** Formats that a schema may not use: `regex` would compile the argument as a regular expression. */
const excludedFormats = new Set(["regex"]);

/** The formats that a schema may use, each of which is checked in bounded time. */
export const argumentFormats: Readonly<Record<string, Format>> = Object.fromEntries(
  Object.entries(fullFormats)
    .filter(([name]) => !excludedFormats.has(name))
    .map(([name, format]) => [name, unboundedFormats.has(name) ? format : limitLength(format)]),
);

function limitLength(format: Format): Format {
  const test = toPredicate(format);
  return { validate: (text: string) => text.length <= FORMATTED_CHARS_MAX && test(text) };
}

function toPredicate(format: Format): (text: string) => boolean {
  if (format === true) return () => true;
  if (typeof format === "string") return (text) => new RegExp(format).test(text);
  if (format instanceof RegExp) return (text) => format.test(text);
  if (typeof format === "function") return (text) => format(text);
  const { validate } = format;
  if (validate instanceof RegExp) return (text) => validate.test(text);
  if (typeof validate === "function")
    return (text) => Reflect.apply(validate, undefined, [text]) === true;
  return () => true;
}
