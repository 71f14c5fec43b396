import { deepEqual } from "../base/canonical-json.ts";
import type { Leaves } from "./field-leaves.ts";
import type { FieldAuthor } from "./store.ts";

/** The author of each leaf of a resource, by its pointer. A leaf without an entry has an unknown author. */
export type FieldAuthors = Readonly<Record<string, FieldAuthor>>;

export interface AuthoredLeaves {
  readonly leaves: Leaves;
  readonly authors: FieldAuthors;
}

/**
 * Returns the authors of the leaves after a write. For a field with a new value, the author is the writer. A field
 * with an unchanged value keeps its author. But if a writer with the scope `admin` writes that value, it confirms the
 * field, and becomes its author unless the author has that scope already.
 */
export function attributeFields(
  before: AuthoredLeaves,
  after: Leaves,
  write: { readonly given: Leaves; readonly author: FieldAuthor },
): FieldAuthors {
  const { given, author } = write;
  const authors: Record<string, FieldAuthor> = {};
  for (const [pointer, value] of after) {
    const known = before.authors[pointer];
    const isKept = before.leaves.has(pointer) && deepEqual(before.leaves.get(pointer), value);
    const isConfirmed =
      author.scope === "admin" && given.has(pointer) && deepEqual(given.get(pointer), value);
    const next = isKept && (known?.scope === "admin" || !isConfirmed) ? known : author;
    if (next) authors[pointer] = next;
  }
  return authors;
}
