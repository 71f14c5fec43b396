import { choice, literal, rule, sequence } from "./combinators.ts";
import type { Expression } from "./expression.ts";
import { isEqualJson } from "./json-values.ts";
import type { LanguageContext } from "./language-context.ts";
import { getItemSchemas, getPrefixLength } from "./member-schemas.ts";
import type { ArrayAlternative } from "./normal-form.ts";
import { refuseKeyword } from "./schema-refusal.ts";

/** The maximum number of different values that the items may have. Each subset of these values needs a grammar rule. */
const VALUES_MAX = 8;

/** Compiles an array with `uniqueItems` to a grammar of all orders of the few values that its items may have. */
export function compileUniqueItems(
  language: LanguageContext,
  alternative: ArrayAlternative,
  hint: string,
): Expression | undefined {
  const { blank, table, normalizer } = language;
  if (getPrefixLength(alternative.facets) > 0)
    refuseKeyword("uniqueItems", alternative.pointer, "cannot be combined with prefixItems");
  const values: unknown[] = [];
  for (const item of normalizer.normalize(getItemSchemas(alternative, 0))) {
    const named =
      item.kind === "values"
        ? item.values
        : item.kind === "boolean"
          ? [true, false]
          : item.kind === "null"
            ? [null]
            : refuseKeyword("uniqueItems", alternative.pointer, "requires items with a small enum");
    for (const value of named) {
      if (!values.some((rules) => isEqualJson(rules, value))) values.push(value);
    }
  }
  if (values.length > VALUES_MAX) {
    refuseKeyword(
      "uniqueItems",
      alternative.pointer,
      `requires items with at most ${VALUES_MAX} values`,
    );
  }
  const max = Math.min(alternative.max ?? values.length, values.length);
  if (alternative.min > max) return undefined;
  const rules = new Map<number, Expression>();
  /** Returns the grammar of the rest of the array, after the values whose bits are set in `used`. */
  const after = (used: number, count: number): Expression | undefined => {
    const done = rules.get(used);
    if (done) return done;
    const more = count < max ? next(used, count) : undefined;
    const body = choice([
      more && sequence(literal(","), blank, more),
      count >= alternative.min ? sequence(blank, literal("]")) : undefined,
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
  const inside = choice([alternative.min === 0 ? literal("]") : undefined, first]);
  return inside && sequence(literal("["), blank, inside);
}
