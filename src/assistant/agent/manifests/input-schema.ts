import { canonicalJson } from "../../../base/canonical.ts";
import { messageOf } from "../../../base/errors.ts";
import { suggestion } from "../../../base/nearest.ts";
import type { JsonObject } from "../port.ts";
import { argumentFormats } from "./argument-formats.ts";
import { type Faults, isObject, kindOf, own, quoted } from "./faults.ts";
import { pointerBelow } from "./json-pointer.ts";
import { linearPattern } from "./linear-pattern.ts";
import { metaSchemaFaults } from "./schema-compiler.ts";
import { checkReferences } from "./schema-cost.ts";
import {
  type Dialect,
  dialectOf,
  isKnownKeyword,
  isTypeName,
  knownKeywords,
  subschemas,
  typeNames,
  typesOf,
} from "./schema-keywords.ts";

const SCHEMA_CHARS_MAX = 64 * 1024;
const DEPTH_MAX = 32;
/** Items that are no plain values are compared each with each: a million comparisons at most. */
const UNIQUE_ITEMS_MAX = 1000;

/**
 * Checks the schema of a tool's arguments. One that is taken compiles in Ajv's strict mode, refers to nothing
 * outside itself, and takes time in proportion to the arguments, because both are written by strangers:
 * no recursion, a bounded size with every reference followed, patterns of RE2. Returns whether it is taken.
 */
export function checkInputSchema(schema: JsonObject, pointer: string, faults: Faults): boolean {
  const before = faults.errors;
  const dialect = dialectOf(schema);
  if (dialect === undefined) {
    faults.error(
      pointerBelow(pointer, "$schema"),
      "must be left out, or be that of JSON Schema 2020-12 or draft-07",
    );
    return false;
  }
  if (canonicalJson(schema).length > SCHEMA_CHARS_MAX) {
    faults.error(pointer, `the schema is larger than ${SCHEMA_CHARS_MAX / 1024} KiB`);
    return false;
  }
  if (own(schema, "type") !== "object") {
    faults.error(
      pointerBelow(pointer, "type"),
      `must be "object", since arguments are one, not ${kindOf(own(schema, "type"))}`,
    );
  }
  new Walk(dialect, faults).visit(schema, pointer, 1);
  metaSchemaFaults(schema, dialect, pointer, faults);
  warnOfRequired(schema, pointer, faults);
  if (faults.errors === before) checkReferences(schema, pointer, dialect, faults);
  return faults.errors === before;
}

class Walk {
  readonly #dialect: Dialect;
  readonly #faults: Faults;

  constructor(dialect: Dialect, faults: Faults) {
    this.#dialect = dialect;
    this.#faults = faults;
  }

  visit(schema: unknown, pointer: string, depth: number): void {
    if (typeof schema === "boolean") return;
    if (!isObject(schema)) {
      this.#faults.error(pointer, `must be a schema, not ${kindOf(schema)}`);
      return;
    }
    if (depth > DEPTH_MAX) {
      this.#faults.error(pointer, `schemas are nested deeper than ${DEPTH_MAX} levels`);
      return;
    }
    this.#keywords(schema, pointer, depth === 1);
    this.#types(schema, pointer);
    this.#values(schema, pointer);
    for (const below of subschemas(schema, pointer, this.#dialect)) {
      this.visit(below.schema, below.pointer, depth + 1);
    }
  }

  #keywords(schema: JsonObject, pointer: string, isRoot: boolean): void {
    for (const keyword of Object.keys(schema)) {
      if (isKnownKeyword(this.#dialect, keyword) || keyword.startsWith("x-")) continue;
      if (keyword === "$schema" && isRoot) continue;
      this.#faults.error(pointerBelow(pointer, keyword), this.#unknown(keyword));
    }
  }

  #unknown(keyword: string): string {
    if (["$id", "id", "$anchor", "$dynamicAnchor"].includes(keyword)) {
      return `${quoted(keyword)} is not taken: parts of a schema are referred to as "#/$defs/…"`;
    }
    if (["$dynamicRef", "$recursiveRef", "$recursiveAnchor"].includes(keyword)) {
      return `${quoted(keyword)} is not taken: schemas that contain themselves have no bound`;
    }
    const near = suggestion(keyword, knownKeywords(this.#dialect));
    return `${quoted(keyword)} is no keyword of JSON Schema ${this.#dialect}${near}`;
  }

  #types(schema: JsonObject, pointer: string): void {
    const type = own(schema, "type");
    const at = pointerBelow(pointer, "type");
    for (const name of Array.isArray(type) ? type : [type]) {
      if (typeof name !== "string" || isTypeName(name)) continue;
      this.#faults.error(at, `${quoted(name)} is no type${suggestion(name, typeNames())}`);
    }
    const nullable = own(schema, "nullable");
    if (nullable === undefined) return;
    const error = (message: string) =>
      this.#faults.error(pointerBelow(pointer, "nullable"), message);
    if (typeof nullable !== "boolean") error("must be true or false");
    else if (type === undefined) error("stands beside a type only");
    else if (!nullable && typesOf(schema).includes("null")) error("says other than the type");
  }

  /** What Ajv refuses beyond the meta-schema, and what would take too long. */
  #values(schema: JsonObject, pointer: string): void {
    const pattern = own(schema, "pattern");
    if (typeof pattern === "string") this.#pattern(pattern, pointerBelow(pointer, "pattern"));
    const patterns = own(schema, "patternProperties");
    if (isObject(patterns)) this.#patternProperties(patterns, schema, pointer);
    const format = own(schema, "format");
    if (typeof format === "string" && !Object.hasOwn(argumentFormats, format)) {
      const near = suggestion(format, Object.keys(argumentFormats));
      this.#faults.error(
        pointerBelow(pointer, "format"),
        `there is no format ${quoted(format)}${near}`,
      );
    }
    const values = own(schema, "enum");
    if (Array.isArray(values) && values.length === 0) {
      this.#faults.error(pointerBelow(pointer, "enum"), "must have a value");
    }
    this.#companions(schema, pointer);
    if (own(schema, "uniqueItems") === true && !this.#areItemsPlain(schema)) {
      const itemsMax = own(schema, "maxItems");
      if (typeof itemsMax !== "number" || itemsMax > UNIQUE_ITEMS_MAX) {
        this.#faults.error(
          pointerBelow(pointer, "uniqueItems"),
          `compares each item with each: give maxItems of at most ${UNIQUE_ITEMS_MAX}, or items of a plain type`,
        );
      }
    }
  }

  /** Keywords that do nothing alone, which strict mode takes for mistakes. */
  #companions(schema: JsonObject, pointer: string): void {
    const has = (keyword: string) => Object.hasOwn(schema, keyword);
    const need = (keyword: string, message: string) => {
      if (has(keyword)) this.#faults.error(pointerBelow(pointer, keyword), message);
    };
    if (!has("if")) {
      need("then", 'does nothing without "if"');
      need("else", 'does nothing without "if"');
    } else if (!has("then") && !has("else")) {
      need("if", 'does nothing without "then" or "else"');
    }
    if (!has("contains")) {
      need("minContains", 'does nothing without "contains"');
      need("maxContains", 'does nothing without "contains"');
    }
    const [min, max] = [own(schema, "minContains") ?? 1, own(schema, "maxContains")];
    if (typeof min === "number" && typeof max === "number" && min > max) {
      this.#faults.error(pointerBelow(pointer, "maxContains"), "is less than minContains");
    }
    if (!Array.isArray(own(schema, "items")) && has("additionalItems")) {
      need("additionalItems", 'does nothing without a list in "items"');
    }
  }

  #pattern(pattern: string, pointer: string): void {
    try {
      linearPattern(pattern);
    } catch (error) {
      this.#faults.error(pointer, `is no pattern of RE2: ${messageOf(error)}`);
    }
  }

  /** Ajv's strict mode wants no property that both keywords are about. */
  #patternProperties(patterns: JsonObject, schema: JsonObject, pointer: string): void {
    const properties = own(schema, "properties");
    const names = isObject(properties) ? Object.keys(properties) : [];
    for (const pattern of Object.keys(patterns)) {
      const at = pointerBelow(pointer, "patternProperties", pattern);
      const before = this.#faults.errors;
      this.#pattern(pattern, at);
      if (this.#faults.errors > before) continue;
      const compiled = linearPattern(pattern);
      const both = names.find((name) => compiled.test(name));
      if (both !== undefined) {
        this.#faults.error(at, `also matches ${quoted(both)}, which stands in properties`);
      }
    }
  }

  #areItemsPlain(schema: JsonObject): boolean {
    const items = own(schema, "items");
    if (!isObject(items)) return false;
    const types = typesOf(items);
    return types.length > 0 && !types.some((type) => type === "object" || type === "array");
  }
}

function warnOfRequired(schema: JsonObject, pointer: string, faults: Faults): void {
  const required = own(schema, "required");
  const properties = own(schema, "properties");
  if (!Array.isArray(required)) return;
  const names = isObject(properties) ? Object.keys(properties) : [];
  for (const [index, name] of required.entries()) {
    if (typeof name !== "string" || names.includes(name)) continue;
    faults.warning(
      pointerBelow(pointer, "required", index),
      `${quoted(name)} does not stand in properties${suggestion(name, names)}`,
    );
  }
}
