import { canonicalJson } from "../../../base/canonical-json.ts";
import { getErrorMessage } from "../../../base/errors.ts";
import { formatSuggestion } from "../../../base/spelling-suggestions.ts";
import type { JsonObject } from "../port.ts";
import { argumentFormats } from "./argument-formats.ts";
import { checkReferences } from "./check-references.ts";
import {
  type Dialect,
  getDialect,
  getTypes,
  isKnownKeyword,
  isTypeName,
  knownKeywords,
  subschemas,
  typeNames,
} from "./input-schema-keywords.ts";
import { pointerBelow } from "./json-pointer.ts";
import { compileLinearPattern } from "./linear-pattern.ts";
import {
  describeValue,
  type FaultCollector,
  getOwn,
  isObject,
  quoteValue,
} from "./manifest-faults.ts";
import { checkMetaSchema } from "./schema-compiler.ts";

const SCHEMA_CHARS_MAX = 64 * 1024;
const DEPTH_MAX = 32;
/** Items that are no plain values are compared each with each: a million comparisons at most. */
const UNIQUE_ITEMS_MAX = 1000;

/**
 * Checks the schema of a tool's arguments. One that is taken compiles in Ajv's strict mode, refers to nothing
 * outside itself, and takes time in proportion to the arguments, because both are written by strangers:
 * no recursion, a bounded size with every reference followed, patterns of RE2. Returns whether it is taken.
 */
export function checkInputSchema(
  schema: JsonObject,
  pointer: string,
  faults: FaultCollector,
): boolean {
  const before = faults.errorCount;
  const dialect = getDialect(schema);
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
  if (getOwn(schema, "type") !== "object") {
    faults.error(
      pointerBelow(pointer, "type"),
      `must be "object", since arguments are one, not ${describeValue(getOwn(schema, "type"))}`,
    );
  }
  new InputSchemaChecker(dialect, faults).visit(schema, pointer, 1);
  checkMetaSchema(schema, dialect, pointer, faults);
  warnAboutUndeclaredRequired(schema, pointer, faults);
  if (faults.errorCount === before) checkReferences(schema, pointer, dialect, faults);
  return faults.errorCount === before;
}

class InputSchemaChecker {
  readonly #dialect: Dialect;
  readonly #faults: FaultCollector;

  constructor(dialect: Dialect, faults: FaultCollector) {
    this.#dialect = dialect;
    this.#faults = faults;
  }

  visit(schema: unknown, pointer: string, depth: number): void {
    if (typeof schema === "boolean") return;
    if (!isObject(schema)) {
      this.#faults.error(pointer, `must be a schema, not ${describeValue(schema)}`);
      return;
    }
    if (depth > DEPTH_MAX) {
      this.#faults.error(pointer, `schemas are nested deeper than ${DEPTH_MAX} levels`);
      return;
    }
    this.#checkKeywords(schema, pointer, depth === 1);
    this.#checkTypes(schema, pointer);
    this.#checkValues(schema, pointer);
    for (const below of subschemas(schema, pointer, this.#dialect)) {
      this.visit(below.schema, below.pointer, depth + 1);
    }
  }

  #checkKeywords(schema: JsonObject, pointer: string, isRoot: boolean): void {
    for (const keyword of Object.keys(schema)) {
      if (isKnownKeyword(this.#dialect, keyword) || keyword.startsWith("x-")) continue;
      if (keyword === "$schema" && isRoot) continue;
      this.#faults.error(pointerBelow(pointer, keyword), this.#describeUnknown(keyword));
    }
  }

  #describeUnknown(keyword: string): string {
    if (["$id", "id", "$anchor", "$dynamicAnchor"].includes(keyword)) {
      return `${quoteValue(keyword)} is not taken: parts of a schema are referred to as "#/$defs/…"`;
    }
    if (["$dynamicRef", "$recursiveRef", "$recursiveAnchor"].includes(keyword)) {
      return `${quoteValue(keyword)} is not taken: schemas that contain themselves have no bound`;
    }
    const near = formatSuggestion(keyword, knownKeywords(this.#dialect));
    return `${quoteValue(keyword)} is no keyword of JSON Schema ${this.#dialect}${near}`;
  }

  #checkTypes(schema: JsonObject, pointer: string): void {
    const type = getOwn(schema, "type");
    const at = pointerBelow(pointer, "type");
    for (const name of Array.isArray(type) ? type : [type]) {
      if (typeof name !== "string" || isTypeName(name)) continue;
      this.#faults.error(
        at,
        `${quoteValue(name)} is no type${formatSuggestion(name, typeNames())}`,
      );
    }
    const nullable = getOwn(schema, "nullable");
    if (nullable === undefined) return;
    const error = (message: string) =>
      this.#faults.error(pointerBelow(pointer, "nullable"), message);
    if (typeof nullable !== "boolean") error("must be true or false");
    else if (type === undefined) error("stands beside a type only");
    else if (!nullable && getTypes(schema).includes("null")) error("says other than the type");
  }

  /** What Ajv refuses beyond the meta-schema, and what would take too long. */
  #checkValues(schema: JsonObject, pointer: string): void {
    const pattern = getOwn(schema, "pattern");
    if (typeof pattern === "string") this.#checkPattern(pattern, pointerBelow(pointer, "pattern"));
    const patterns = getOwn(schema, "patternProperties");
    if (isObject(patterns)) this.#checkPatternProperties(patterns, schema, pointer);
    const format = getOwn(schema, "format");
    if (typeof format === "string" && !Object.hasOwn(argumentFormats, format)) {
      const near = formatSuggestion(format, Object.keys(argumentFormats));
      this.#faults.error(
        pointerBelow(pointer, "format"),
        `there is no format ${quoteValue(format)}${near}`,
      );
    }
    const values = getOwn(schema, "enum");
    if (Array.isArray(values) && values.length === 0) {
      this.#faults.error(pointerBelow(pointer, "enum"), "must have a value");
    }
    this.#checkDependentKeywords(schema, pointer);
    if (getOwn(schema, "uniqueItems") === true && !this.#areItemsPlain(schema)) {
      const itemsMax = getOwn(schema, "maxItems");
      if (typeof itemsMax !== "number" || itemsMax > UNIQUE_ITEMS_MAX) {
        this.#faults.error(
          pointerBelow(pointer, "uniqueItems"),
          `compares each item with each: give maxItems of at most ${UNIQUE_ITEMS_MAX}, or items of a plain type`,
        );
      }
    }
  }

  /** Keywords that do nothing alone, which strict mode takes for mistakes. */
  #checkDependentKeywords(schema: JsonObject, pointer: string): void {
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
    const [min, max] = [getOwn(schema, "minContains") ?? 1, getOwn(schema, "maxContains")];
    if (typeof min === "number" && typeof max === "number" && min > max) {
      this.#faults.error(pointerBelow(pointer, "maxContains"), "is less than minContains");
    }
    if (!Array.isArray(getOwn(schema, "items")) && has("additionalItems")) {
      need("additionalItems", 'does nothing without a list in "items"');
    }
  }

  #checkPattern(pattern: string, pointer: string): void {
    try {
      compileLinearPattern(pattern);
    } catch (error) {
      this.#faults.error(pointer, `is no pattern of RE2: ${getErrorMessage(error)}`);
    }
  }

  /** Ajv's strict mode wants no property that both keywords are about. */
  #checkPatternProperties(patterns: JsonObject, schema: JsonObject, pointer: string): void {
    const properties = getOwn(schema, "properties");
    const names = isObject(properties) ? Object.keys(properties) : [];
    for (const pattern of Object.keys(patterns)) {
      const at = pointerBelow(pointer, "patternProperties", pattern);
      const before = this.#faults.errorCount;
      this.#checkPattern(pattern, at);
      if (this.#faults.errorCount > before) continue;
      const compiled = compileLinearPattern(pattern);
      const both = names.find((name) => compiled.test(name));
      if (both !== undefined) {
        this.#faults.error(at, `also matches ${quoteValue(both)}, which stands in properties`);
      }
    }
  }

  #areItemsPlain(schema: JsonObject): boolean {
    const items = getOwn(schema, "items");
    if (!isObject(items)) return false;
    const types = getTypes(items);
    return types.length > 0 && !types.some((type) => type === "object" || type === "array");
  }
}

function warnAboutUndeclaredRequired(
  schema: JsonObject,
  pointer: string,
  faults: FaultCollector,
): void {
  const required = getOwn(schema, "required");
  const properties = getOwn(schema, "properties");
  if (!Array.isArray(required)) return;
  const names = isObject(properties) ? Object.keys(properties) : [];
  for (const [index, name] of required.entries()) {
    if (typeof name !== "string" || names.includes(name)) continue;
    faults.warning(
      pointerBelow(pointer, "required", index),
      `${quoteValue(name)} does not stand in properties${formatSuggestion(name, names)}`,
    );
  }
}
