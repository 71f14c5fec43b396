import { canonicalJson } from "../base/canonical-json.ts";
import type { FieldChange } from "../store/store.ts";

/** Compares the top-level fields of two specs of an App or a Model. Such specs never contain values of Secrets. */
export function diffSpecs(before: object, after: object): FieldChange[] {
  const old = new Map<string, unknown>(Object.entries(before));
  const now = new Map<string, unknown>(Object.entries(after));
  return [...new Set([...old.keys(), ...now.keys()])]
    .toSorted()
    .map((key) => ({ path: `/spec/${key}`, before: old.get(key), after: now.get(key) }))
    .filter(
      (change) => canonicalJson(change.before ?? null) !== canonicalJson(change.after ?? null),
    );
}
