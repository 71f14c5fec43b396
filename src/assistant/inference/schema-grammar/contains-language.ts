import { choice, literal, rule, sequence } from "./combinators.ts";
import type { Expression } from "./expression.ts";
import type { LanguageContext } from "./language-context.ts";
import { getItemSchemas, getPrefixLength } from "./member-schemas.ts";
import type { ArrayAlternative } from "./normal-form.ts";
import { conjoin } from "./normal-form.ts";
import { refuseKeyword } from "./schema-refusal.ts";

/** The maximum number of states of the automaton: the product of counted items and counted matches. */
const STATES_MAX = 3_000;

/**
 * Compiles an array with `contains` as an automaton that counts items and matches. Without maxContains, an
 * item that is not counted may match too; with maxContains, it must not.
 */
export function compileContains(
  language: LanguageContext,
  alternative: ArrayAlternative,
  hint: string,
): Expression | undefined {
  const [contains, otherContains] = alternative.contains;
  if (!contains) return undefined;
  if (otherContains)
    refuseKeyword(
      "contains",
      otherContains.pointer,
      "applies twice to the same array, which is not supported",
    );
  if (getPrefixLength(alternative.facets) > 0)
    refuseKeyword("contains", contains.pointer, "cannot be combined with prefixItems");
  const { normalizer, blank, table } = language;
  const items = getItemSchemas(alternative, 0);
  const other =
    contains.max === undefined ? items : conjoin(items, normalizer.negate(contains.schemas));
  const match = language.valueRule(conjoin(items, contains.schemas), `${hint}-match`);
  const unmatched = language.valueRule(other, `${hint}-item`);
  // The automaton counts items only up to `itemsTop`, and items that match `contains` only up to `matchesTop`, because
  // larger counts allow the same rest of the array.
  const itemsTop = alternative.max ?? alternative.min;
  const matchesTop = contains.max ?? contains.min;
  if ((itemsTop + 1) * (matchesTop + 1) > STATES_MAX) {
    refuseKeyword("contains", contains.pointer, "has too many combinations of items and matches");
  }
  const rules = new Map<string, Expression>();
  const todo: (() => void)[] = [];
  /** Returns the grammar of the rest of the array after `count` items, `matches` of which match `contains`. */
  const after = (count: number, matches: number): Expression => {
    const key = `${count} ${matches}`;
    let expression = rules.get(key);
    if (!expression) {
      const name = table.reserve(`${hint}-after`);
      expression = rule(name);
      rules.set(key, expression);
      todo.push(() => {
        const more = next(count, matches);
        const body = choice([
          more && sequence(literal(","), blank, more),
          canEnd(count, matches) ? sequence(blank, literal("]")) : undefined,
        ]);
        if (body) table.set(name, body);
      });
    }
    return expression;
  };
  const canEnd = (count: number, matches: number) =>
    count >= alternative.min && matches >= contains.min;
  const next = (count: number, matches: number): Expression | undefined => {
    if (alternative.max !== undefined && count >= alternative.max) return undefined;
    const then = Math.min(count + 1, itemsTop);
    const full = contains.max !== undefined && matches >= contains.max;
    const counted = sequence(match, after(then, Math.min(matches + 1, matchesTop)));
    // Once `minContains` is met and there is no `maxContains`, the rule `unmatched` accepts every item. The rule
    // `match` is then left out, because two rules for one item would make the grammar ambiguous.
    const enough = contains.max === undefined && matches >= contains.min;
    return choice([
      full || enough ? undefined : counted,
      sequence(unmatched, after(then, matches)),
    ]);
  };
  const first = next(0, 0);
  for (let fill = todo.pop(); fill; fill = todo.pop()) fill();
  const inside = choice([canEnd(0, 0) ? literal("]") : undefined, first]);
  return inside && sequence(literal("["), blank, inside);
}
