import { formatPointer } from "../resources/json-pointer.ts";
import { lifecycleFields, type UncheckedField } from "../resources/privileged-fields.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  RESTARTED_AT_ANNOTATION,
  RETRIED_AT_ANNOTATION,
} from "../resources/resource.ts";
import type { AuthoredLeaves } from "./field-authors.ts";

/** Lists the protected fields whose author did not have the scope `admin`, or is unknown. */
export function listUncheckedFields({ leaves, authors }: AuthoredLeaves): UncheckedField[] {
  return [...leaves.keys()]
    .filter((path) => isProtectedField(path) && authors[path]?.scope !== "admin")
    .map((path) => ({ path, author: authors[path]?.name }));
}

const harmlessAnnotations: ReadonlySet<string> = new Set(
  [DEPLOYED_AT_ANNOTATION, RESTARTED_AT_ANNOTATION, RETRIED_AT_ANNOTATION].map((name) =>
    formatPointer(["metadata", "annotations", name]),
  ),
);
const ownAnnotations = formatPointer(["metadata", "annotations", "berth.dev/"]);

/** Returns false for the fields of an App's life cycle, its labels and the annotations of other programs. */
export function isProtectedField(path: string): boolean {
  if (path.startsWith("/spec/")) return !lifecycleFields.has(path.split("/")[2] ?? "");
  return path.startsWith(ownAnnotations) && !harmlessAnnotations.has(path);
}
