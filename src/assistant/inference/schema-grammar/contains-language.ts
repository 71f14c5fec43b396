import { choice, literal, rule, sequence } from "./combinators.ts";
import type { Expression } from "./expression.ts";
import type { LanguageContext } from "./language-context.ts";
import { itemSchemas, prefixLength } from "./members.ts";
import type { ArrayPart } from "./part.ts";
import { bothHold } from "./part.ts";
import { refuse } from "./refusal.ts";

/** Items that are counted, times matches that are counted. */
const STATES_MAX = 3_000;

/**
 * An array with `contains`: an automaton that counts items and matches. Without maxContains an item that is
 * not counted as a match may well be one; with it, it must not.
 */
export function containsExpression(
  language: LanguageContext,
  part: ArrayPart,
  hint: string,
): Expression | undefined {
  const [contains, second] = part.contains;
  if (!contains) return undefined;
  if (second) refuse("contains", second.pointer, "is asked for twice, which is not followed");
  if (prefixLength(part.facets) > 0)
    refuse("contains", contains.pointer, "stands beside prefixItems");
  const { shapes, blank, table } = language;
  const items = itemSchemas(part, 0);
  const other =
    contains.max === undefined ? items : bothHold(items, shapes.negated(contains.schemas));
  const match = language.value(bothHold(items, contains.schemas), `${hint}-match`);
  const plain = language.value(other, `${hint}-item`);
  // Beyond these nothing more depends on the count.
  const itemsTop = part.max ?? part.min;
  const matchesTop = contains.max ?? contains.min;
  if ((itemsTop + 1) * (matchesTop + 1) > STATES_MAX) {
    refuse("contains", contains.pointer, "is counted together with too many items");
  }
  const known = new Map<string, Expression>();
  const todo: (() => void)[] = [];
  /** What follows an item, when so many items and so many matches have been. */
  const after = (count: number, matches: number): Expression => {
    const key = `${count} ${matches}`;
    let expression = known.get(key);
    if (!expression) {
      const name = table.reserve(`${hint}-after`);
      expression = rule(name);
      known.set(key, expression);
      todo.push(() => {
        const more = next(count, matches);
        const body = choice([
          more && sequence(literal(","), blank, more),
          mayEnd(count, matches) ? sequence(blank, literal("]")) : undefined,
        ]);
        if (body) table.set(name, body);
      });
    }
    return expression;
  };
  const mayEnd = (count: number, matches: number) => count >= part.min && matches >= contains.min;
  const next = (count: number, matches: number): Expression | undefined => {
    if (part.max !== undefined && count >= part.max) return undefined;
    const then = Math.min(count + 1, itemsTop);
    const full = contains.max !== undefined && matches >= contains.max;
    const counted = sequence(match, after(then, Math.min(matches + 1, matchesTop)));
    // With enough matches and no maximum, every item is a plain one: fewer ways to read one text.
    const enough = contains.max === undefined && matches >= contains.min;
    return choice([full || enough ? undefined : counted, sequence(plain, after(then, matches))]);
  };
  const first = next(0, 0);
  for (let fill = todo.pop(); fill; fill = todo.pop()) fill();
  const inside = choice([mayEnd(0, 0) ? literal("]") : undefined, first]);
  return inside && sequence(literal("["), blank, inside);
}
