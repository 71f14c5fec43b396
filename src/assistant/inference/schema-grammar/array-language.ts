import { choice, literal, repeat, rule, sequence } from "./combinators.ts";
import { containsExpression } from "./contains-language.ts";
import type { Expression } from "./expression.ts";
import type { LanguageContext } from "./language-context.ts";
import { schemaLimits } from "./limits.ts";
import { itemSchemas, prefixLength } from "./members.ts";
import type { ArrayPart } from "./part.ts";
import { refuse } from "./refusal.ts";
import { uniqueExpression } from "./unique-language.ts";

/** An array: first the items that have schemas of their own, then as many of the others as allowed. */
export function arrayExpression(
  language: LanguageContext,
  part: ArrayPart,
  hint: string,
): Expression | undefined {
  const { blank } = language;
  const { min, max } = part;
  for (const [keyword, bound] of [
    ["minItems", min],
    ["maxItems", max ?? 0],
  ] as const) {
    if (bound > schemaLimits.repetition) {
      refuse(keyword, part.pointer, `is more than ${schemaLimits.repetition}`);
    }
  }
  // With one item at most, no two are equal.
  if (part.unique && (max === undefined || max > 1)) {
    if (part.contains.length > 0) refuse("uniqueItems", part.pointer, "stands beside contains");
    return uniqueExpression(language, part, hint);
  }
  if (part.contains.length > 0) return containsExpression(language, part, hint);

  const comma = sequence(literal(","), blank);
  const close = sequence(blank, literal("]"));
  const prefix = prefixLength(part.facets);
  // After `index` items, at least one: what may come then. From the back, so that each leads to the next.
  let after: Expression | undefined = afterPrefix(language, part, prefix, comma, close, hint);
  let first: Expression | undefined;
  if (prefix === 0) {
    if (max === 0) return sequence(literal("["), blank, literal("]"));
    const item = language.value(itemSchemas(part, 0), `${hint}-item`);
    const more = moreItems(language, item, min - 1, max === undefined ? undefined : max - 1, hint);
    first = sequence(item, more, close);
  } else {
    for (let index = prefix - 1; index >= 0; index -= 1) {
      const item = language.value(itemSchemas(part, index), `${hint}-item-${index + 1}`);
      const here: Expression | undefined = after && sequence(item, after);
      const fits = max === undefined || index < max;
      if (index === 0) {
        first = fits ? here : undefined;
        break;
      }
      const rest: Expression | undefined = choice([
        here && fits ? sequence(comma, here) : undefined,
        index >= min ? close : undefined,
      ]);
      after = rest && index % 8 === 0 ? named(language, rest, hint) : rest;
    }
  }
  const inside = choice([min === 0 ? literal("]") : undefined, first]);
  return inside && sequence(literal("["), blank, inside);
}

/** After all items of the prefix, of which there is one at least. */
function afterPrefix(
  language: LanguageContext,
  part: ArrayPart,
  prefix: number,
  comma: Expression,
  close: Expression,
  hint: string,
): Expression | undefined {
  if (prefix === 0) return undefined;
  const { min, max } = part;
  if (max !== undefined && max < prefix) return undefined;
  const item = sequence(comma, language.value(itemSchemas(part, prefix), `${hint}-item`));
  const more = repeatItem(
    language,
    item,
    Math.max(0, min - prefix),
    max === undefined ? undefined : max - prefix,
    hint,
  );
  return sequence(more, close);
}

function moreItems(
  language: LanguageContext,
  item: Expression,
  min: number,
  max: number | undefined,
  hint: string,
): Expression {
  const another = sequence(literal(","), language.blank, item);
  return repeatItem(language, another, Math.max(0, min), max, hint);
}

/** The item is named, since llama.cpp copies what it repeats. */
function repeatItem(
  language: LanguageContext,
  item: Expression,
  min: number,
  max: number | undefined,
  hint: string,
): Expression {
  return max === 0 ? literal("") : repeat(named(language, item, hint), min, max);
}

function named(language: LanguageContext, body: Expression, hint: string): Expression {
  const name = language.table.reserve(`${hint}-next`);
  language.table.set(name, body);
  return rule(name);
}
