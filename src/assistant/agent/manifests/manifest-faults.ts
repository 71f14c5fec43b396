import { formatSuggestion } from "../../../base/spelling-suggestions.ts";
import type { JsonObject } from "../port.ts";
import type { ManifestFault } from "../tool-manifest.ts";
import { pointerBelow } from "./json-pointer.ts";

/** A manifest made to be wrong everywhere must not fill the log. */
const FAULTS_MAX = 50;

/** Collects what is wrong with one manifest: everything, not only the first. */
export class FaultCollector {
  readonly #list: ManifestFault[] = [];
  #errors = 0;
  #omitted = 0;

  error(pointer: string, message: string): void {
    this.#errors += 1;
    this.#add({ pointer, message, severity: "error" });
  }

  warning(pointer: string, message: string): void {
    this.#add({ pointer, message, severity: "warning" });
  }

  /** How many errors there are: compare before and after a check to see whether it found one. */
  get errorCount(): number {
    return this.#errors;
  }

  has(pointer: string): boolean {
    return this.#list.some((fault) => fault.pointer === pointer);
  }

  list(): readonly ManifestFault[] {
    if (this.#omitted === 0) return this.#list;
    const severity = this.#errors > 0 ? "error" : "warning";
    return [...this.#list, { pointer: "", message: `and ${this.#omitted} more`, severity }];
  }

  #add(fault: ManifestFault): void {
    if (this.#list.length < FAULTS_MAX) this.#list.push(fault);
    else this.#omitted += 1;
  }
}

/** Fields that mean nothing may come from a newer version: they are told, and ignored. */
export function warnAboutUnknownFields(
  object: JsonObject,
  known: readonly string[],
  pointer: string,
  faults: FaultCollector,
): void {
  for (const field of Object.keys(object)) {
    if (known.includes(field)) continue;
    faults.warning(
      pointerBelow(pointer, field),
      `${quoteValue(field)} is no field of this; it is ignored${formatSuggestion(field, known)}`,
    );
  }
}

export function isObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** The member that the object itself has: `constructor` of nobody's prototype. */
export function getOwn(object: JsonObject, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

const QUOTED_MAX = 60;

/** A word from a manifest for a message: in one line, and short. */
export function quoteValue(word: string): string {
  return JSON.stringify(word.length > QUOTED_MAX ? `${word.slice(0, QUOTED_MAX)}…` : word);
}

/** What a value is, for "must be …, not …". */
export function describeValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  switch (typeof value) {
    case "object":
      return "an object";
    case "string":
      return value.length > QUOTED_MAX ? "a long text" : JSON.stringify(value);
    default:
      return JSON.stringify(value);
  }
}
