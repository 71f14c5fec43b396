import { choice, literal, rule, sequence } from "./combinators.ts";
import type { Expression } from "./expression.ts";
import { isEqualJson } from "./json-values.ts";
import type { LanguageContext } from "./language-context.ts";
import { getItemSchemas, getPrefixLength } from "./member-schemas.ts";
import type { ArrayAlternative } from "./normal-form.ts";
import { refuseKeyword } from "./schema-refusal.ts";

/** Values whose orders are all possible: one rule for each set of those that are used up. */
const VALUES_MAX = 8;

/** An array without equal items: every order of a few named values. */
export function compileUniqueItems(
  language: LanguageContext,
  part: ArrayAlternative,
  hint: string,
): Expression | undefined {
  const { blank, table, normalizer: shapes } = language;
  if (getPrefixLength(part.facets) > 0)
    refuseKeyword("uniqueItems", part.pointer, "stands beside prefixItems");
  const values: unknown[] = [];
  for (const item of shapes.normalize(getItemSchemas(part, 0))) {
    const named =
      item.kind === "values"
        ? item.values
        : item.kind === "boolean"
          ? [true, false]
          : item.kind === "null"
            ? [null]
            : refuseKeyword("uniqueItems", part.pointer, "needs items that are a small enum");
    for (const value of named) {
      if (!values.some((rules) => isEqualJson(rules, value))) values.push(value);
    }
  }
  if (values.length > VALUES_MAX) {
    refuseKeyword("uniqueItems", part.pointer, `needs items of ${VALUES_MAX} values at most`);
  }
  const max = Math.min(part.max ?? values.length, values.length);
  if (part.min > max) return undefined;
  const rules = new Map<number, Expression>();
  /** What follows when the values whose bits are set have been. */
  const after = (used: number, count: number): Expression | undefined => {
    const done = rules.get(used);
    if (done) return done;
    const more = count < max ? next(used, count) : undefined;
    const body = choice([
      more && sequence(literal(","), blank, more),
      count >= part.min ? sequence(blank, literal("]")) : undefined,
    ]);
    if (!body) return undefined;
    const name = table.reserve(`${hint}-left`);
    table.set(name, body);
    rules.set(used, rule(name));
    return rule(name);
  };
  const next = (used: number, count: number): Expression | undefined =>
    choice(
      values.map((value, index) => {
        const bit = 1 << index;
        const rest = (used & bit) === 0 ? after(used | bit, count + 1) : undefined;
        return rest && sequence(literal(JSON.stringify(value)), rest);
      }),
    );
  const first = max > 0 ? next(0, 0) : undefined;
  const inside = choice([part.min === 0 ? literal("]") : undefined, first]);
  return inside && sequence(literal("["), blank, inside);
}
