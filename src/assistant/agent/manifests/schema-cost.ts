import type { JsonObject } from "../port.ts";
import { type Faults, isObject, own, quoted } from "./faults.ts";
import { pointerBelow, valueAt } from "./json-pointer.ts";
import { type Dialect, subschemas } from "./schema-keywords.ts";

/**
 * Schemas in all, counted as often as they are referred to. It bounds what each value of the arguments may
 * cost, and the code that Ajv makes.
 */
const EXPANDED_MAX = 5000;

/** Under these stand schemas that only count where they are referred to. */
const shelves = new Set(["$defs", "definitions"]);

/** Finds references that lead nowhere, outside or back to themselves, and schemas that unfold to thousands. */
export function checkReferences(
  root: JsonObject,
  pointer: string,
  dialect: Dialect,
  faults: Faults,
): void {
  const cost = new Cost(root, pointer, dialect, faults);
  const size = cost.of(root, pointer);
  cost.shelved();
  if (size > EXPANDED_MAX) {
    faults.error(
      pointer,
      `the schema comes to more than ${EXPANDED_MAX} schemas when its references are followed`,
    );
  }
}

class Cost {
  readonly #root: JsonObject;
  readonly #dialect: Dialect;
  readonly #faults: Faults;
  /** Every place where a schema stands: a reference may lead to nothing else. */
  readonly #places = new Map<object, string>();
  readonly #sizes = new Map<object, number | "open">();

  constructor(root: JsonObject, pointer: string, dialect: Dialect, faults: Faults) {
    this.#root = root;
    this.#dialect = dialect;
    this.#faults = faults;
    this.#collect(root, pointer);
  }

  /** What is never referred to is compiled all the same. */
  shelved(): void {
    for (const [schema, pointer] of this.#places) {
      if (isObject(schema)) this.of(schema, pointer);
    }
  }

  of(schema: unknown, pointer: string): number {
    if (!isObject(schema)) return 1;
    const known = this.#sizes.get(schema);
    if (typeof known === "number") return known;
    if (known === "open") {
      this.#faults.error(pointer, "the schema contains itself, so that it has no bound");
      return 1;
    }
    this.#sizes.set(schema, "open");
    let size = 1;
    for (const below of subschemas(schema, pointer, this.#dialect)) {
      if (!shelves.has(below.keyword)) size += this.of(below.schema, below.pointer);
    }
    const reference = own(schema, "$ref");
    if (typeof reference === "string") {
      size += this.#referred(reference, pointerBelow(pointer, "$ref"));
    }
    // Sums of sums double at each step: beyond the bound the number does not matter.
    size = Math.min(size, EXPANDED_MAX + 1);
    this.#sizes.set(schema, size);
    return size;
  }

  #referred(reference: string, pointer: string): number {
    if (!reference.startsWith("#")) {
      this.#faults.error(pointer, `${quoted(reference)} leads out of the schema`);
      return 1;
    }
    const target = this.#target(reference.slice(1));
    if (typeof target === "boolean") return 1;
    if (!isObject(target) || !this.#places.has(target)) {
      this.#faults.error(pointer, `${quoted(reference)} leads to no schema`);
      return 1;
    }
    return this.of(target, pointer);
  }

  #target(fragment: string): unknown {
    if (fragment !== "" && !fragment.startsWith("/")) return undefined;
    try {
      return valueAt(this.#root, decodeURIComponent(fragment));
    } catch {
      return undefined;
    }
  }

  #collect(schema: unknown, pointer: string): void {
    if (!isObject(schema)) return;
    this.#places.set(schema, pointer);
    for (const below of subschemas(schema, pointer, this.#dialect)) {
      this.#collect(below.schema, below.pointer);
    }
  }
}
