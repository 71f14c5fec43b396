import { getOwn, isObject } from "../../../base/json.ts";
import type { JsonObject } from "../port.ts";
import { type Dialect, subschemas } from "./input-schema-keywords.ts";
import { pointerBelow, resolvePointer } from "./json-pointer.ts";
import { type FaultCollector, quoteValue } from "./manifest-faults.ts";

/**
 * Largest number of schemas after all references are expanded, so that a schema counts once per reference. This limit
 * bounds the time to validate one value and the size of the code that Ajv generates.
 */
const EXPANDED_MAX = 5000;

/** Keywords for definitions. A definition adds to the size of a schema only through the references to it. */
const definitionKeywords = new Set(["$defs", "definitions"]);

/**
 * Reports references that do not resolve, leave the schema or recurse, and schemas that expand to more than
 * EXPANDED_MAX schemas.
 */
export function checkReferences(
  root: JsonObject,
  pointer: string,
  dialect: Dialect,
  faults: FaultCollector,
): void {
  const cost = new ReferenceChecker(root, pointer, dialect, faults);
  const size = cost.measure(root, pointer);
  cost.measureDefinitions();
  if (size > EXPANDED_MAX) {
    faults.error(
      pointer,
      `the schema expands to more than ${EXPANDED_MAX} schemas when its references are followed`,
    );
  }
}

class ReferenceChecker {
  readonly #root: JsonObject;
  readonly #dialect: Dialect;
  readonly #faults: FaultCollector;
  /** The pointers of all subschemas: a reference may only point to one of these. */
  readonly #pointers = new Map<object, string>();
  readonly #sizes = new Map<object, number | "open">();

  constructor(root: JsonObject, pointer: string, dialect: Dialect, faults: FaultCollector) {
    this.#root = root;
    this.#dialect = dialect;
    this.#faults = faults;
    this.#collect(root, pointer);
  }

  /** Measures all subschemas, including definitions that no reference uses, because Ajv compiles these too. */
  measureDefinitions(): void {
    for (const [schema, pointer] of this.#pointers) {
      if (isObject(schema)) this.measure(schema, pointer);
    }
  }

  measure(schema: unknown, pointer: string): number {
    if (!isObject(schema)) return 1;
    const known = this.#sizes.get(schema);
    if (typeof known === "number") return known;
    if (known === "open") {
      this.#faults.error(pointer, "the schema contains itself, so its size has no bound");
      return 1;
    }
    this.#sizes.set(schema, "open");
    let size = 1;
    for (const below of subschemas(schema, pointer, this.#dialect)) {
      if (!definitionKeywords.has(below.keyword)) size += this.measure(below.schema, below.pointer);
    }
    const reference = getOwn(schema, "$ref");
    if (typeof reference === "string") {
      size += this.#measureReference(reference, pointerBelow(pointer, "$ref"));
    }
    // Chained references can double the number of schemas at each step, so the count is capped just above EXPANDED_MAX,
    // the largest number that a manifest may have.
    size = Math.min(size, EXPANDED_MAX + 1);
    this.#sizes.set(schema, size);
    return size;
  }

  #measureReference(reference: string, pointer: string): number {
    if (!reference.startsWith("#")) {
      this.#faults.error(pointer, `${quoteValue(reference)} points outside the schema`);
      return 1;
    }
    const target = this.#resolveTarget(reference.slice(1));
    if (typeof target === "boolean") return 1;
    if (!isObject(target) || !this.#pointers.has(target)) {
      this.#faults.error(pointer, `${quoteValue(reference)} does not point to a schema`);
      return 1;
    }
    return this.measure(target, pointer);
  }

  #resolveTarget(fragment: string): unknown {
    if (fragment !== "" && !fragment.startsWith("/")) return undefined;
    try {
      return resolvePointer(this.#root, decodeURIComponent(fragment));
    } catch {
      return undefined;
    }
  }

  #collect(schema: unknown, pointer: string): void {
    if (!isObject(schema)) return;
    this.#pointers.set(schema, pointer);
    for (const below of subschemas(schema, pointer, this.#dialect)) {
      this.#collect(below.schema, below.pointer);
    }
  }
}
