import { formatSuggestion } from "../../../base/spelling-suggestions.ts";
import type { JsonObject } from "../port.ts";
import type { ManifestFault } from "../tool-manifest.ts";
import { pointerBelow } from "./json-pointer.ts";

/** Faults beyond this number are dropped, so that a manifest that is wrong everywhere does not fill the log. */
const FAULTS_MAX = 50;

/** Collects all faults of one manifest, not only the first. */
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

  /** Number of errors so far. A check found an error if the number has grown. */
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

/**
 * Adds a warning for each unknown field. Such fields are otherwise ignored, because they may belong to a newer version
 * of the manifest format.
 */
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
      `${quoteValue(field)} is not a known field here; it is ignored${formatSuggestion(field, known)}`,
    );
  }
}

const QUOTED_MAX = 60;

/** Quotes a text from a manifest for a message, in one line and cut to a maximum length. */
export function quoteValue(text: string): string {
  return JSON.stringify(text.length > QUOTED_MAX ? `${text.slice(0, QUOTED_MAX)}…` : text);
}

/** Describes a value for the message "must be …, not …". */
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
