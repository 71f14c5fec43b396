import { canonicalJson } from "../../../base/canonical-json.ts";
import { getErrorMessage } from "../../../base/errors.ts";
import { getOwn, isObject } from "../../../base/json.ts";
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
import { describeValue, type FaultCollector, quoteValue } from "./manifest-faults.ts";
import { checkMetaSchema } from "./schema-compiler.ts";

const SCHEMA_CHARS_MAX = 64 * 1024;
const DEPTH_MAX = 32;
/**
 * Largest maxItems for `uniqueItems`. Ajv compares non-primitive items pairwise, so this allows at most a million
 * comparisons.
 */
const UNIQUE_ITEMS_MAX = 1000;

/**
 * Checks the schema of a tool's arguments and returns true if it is accepted. An accepted schema compiles in Ajv's
 * strict mode, refers only to itself, and is validated in linear time, because both the schema and the arguments
 * come from untrusted apps: it has no recursion, a bounded size with all references expanded, and only RE2
 * patterns.
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
      "must be left out, or name JSON Schema 2020-12 or draft-07",
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
      `must be "object", because arguments are an object, not ${describeValue(getOwn(schema, "type"))}`,
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
      return `${quoteValue(keyword)} is not supported: refer to parts of a schema with "#/$defs/…"`;
    }
    if (["$dynamicRef", "$recursiveRef", "$recursiveAnchor"].includes(keyword)) {
      return `${quoteValue(keyword)} is not supported: recursive schemas have no bound`;
    }
    const near = formatSuggestion(keyword, knownKeywords(this.#dialect));
    return `${quoteValue(keyword)} is not a keyword of JSON Schema ${this.#dialect}${near}`;
  }

  #checkTypes(schema: JsonObject, pointer: string): void {
    const type = getOwn(schema, "type");
    const at = pointerBelow(pointer, "type");
    for (const name of Array.isArray(type) ? type : [type]) {
      if (typeof name !== "string" || isTypeName(name)) continue;
      this.#faults.error(
        at,
        `${quoteValue(name)} is not a type${formatSuggestion(name, typeNames())}`,
      );
    }
    const nullable = getOwn(schema, "nullable");
    if (nullable === undefined) return;
    const error = (message: string) =>
      this.#faults.error(pointerBelow(pointer, "nullable"), message);
    if (typeof nullable !== "boolean") error("must be true or false");
    else if (type === undefined) error("is only allowed together with a type");
    else if (!nullable && getTypes(schema).includes("null")) error("contradicts the type");
  }

  /**
   * Checks values that Ajv rejects although the meta-schema allows them, and values that would take too long to
   * validate.
   */
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
      this.#faults.error(pointerBelow(pointer, "enum"), "must have at least one value");
    }
    this.#checkDependentKeywords(schema, pointer);
    if (getOwn(schema, "uniqueItems") === true && !this.#areItemsPlain(schema)) {
      const itemsMax = getOwn(schema, "maxItems");
      if (typeof itemsMax !== "number" || itemsMax > UNIQUE_ITEMS_MAX) {
        this.#faults.error(
          pointerBelow(pointer, "uniqueItems"),
          `compares all items pairwise: set maxItems to at most ${UNIQUE_ITEMS_MAX}, or give the items a primitive type`,
        );
      }
    }
  }

  /**
   * Adds a fault for each keyword that has no effect without another one, such as `then` without `if`. Ajv's strict
   * mode rejects such a schema.
   */
  #checkDependentKeywords(schema: JsonObject, pointer: string): void {
    const has = (keyword: string) => Object.hasOwn(schema, keyword);
    const need = (keyword: string, message: string) => {
      if (has(keyword)) this.#faults.error(pointerBelow(pointer, keyword), message);
    };
    if (!has("if")) {
      need("then", 'has no effect without "if"');
      need("else", 'has no effect without "if"');
    } else if (!has("then") && !has("else")) {
      need("if", 'has no effect without "then" or "else"');
    }
    if (!has("contains")) {
      need("minContains", 'has no effect without "contains"');
      need("maxContains", 'has no effect without "contains"');
    }
    const [min, max] = [getOwn(schema, "minContains") ?? 1, getOwn(schema, "maxContains")];
    if (typeof min === "number" && typeof max === "number" && min > max) {
      this.#faults.error(pointerBelow(pointer, "maxContains"), "is less than minContains");
    }
    if (!Array.isArray(getOwn(schema, "items")) && has("additionalItems")) {
      need("additionalItems", 'has no effect without a list in "items"');
    }
  }

  #checkPattern(pattern: string, pointer: string): void {
    try {
      compileLinearPattern(pattern);
    } catch (error) {
      this.#faults.error(pointer, `is not an RE2 pattern: ${getErrorMessage(error)}`);
    }
  }

  /** Checks that no property matches both `properties` and `patternProperties`, which Ajv's strict mode rejects. */
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
        this.#faults.error(at, `also matches ${quoteValue(both)}, which is in properties`);
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
      `${quoteValue(name)} is not in properties${formatSuggestion(name, names)}`,
    );
  }
}
