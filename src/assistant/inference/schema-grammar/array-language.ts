import { choice, literal, repeat, rule, sequence } from "./combinators.ts";
import { compileContains } from "./contains-language.ts";
import type { Expression } from "./expression.ts";
import type { LanguageContext } from "./language-context.ts";
import { getItemSchemas, getPrefixLength } from "./member-schemas.ts";
import type { ArrayAlternative } from "./normal-form.ts";
import { schemaLimits } from "./schema-limits.ts";
import { refuseKeyword } from "./schema-refusal.ts";
import { compileUniqueItems } from "./unique-language.ts";

/** Compiles an array: first the items that have their own schemas, then the allowed number of other items. */
export function compileArray(
  language: LanguageContext,
  alternative: ArrayAlternative,
  hint: string,
): Expression | undefined {
  const { blank } = language;
  const { min, max } = alternative;
  for (const [keyword, bound] of [
    ["minItems", min],
    ["maxItems", max ?? 0],
  ] as const) {
    if (bound > schemaLimits.repetition) {
      refuseKeyword(keyword, alternative.pointer, `is more than ${schemaLimits.repetition}`);
    }
  }
  // An array with at most one item cannot violate uniqueItems, so the keyword is ignored for it.
  if (alternative.unique && (max === undefined || max > 1)) {
    if (alternative.contains.length > 0)
      refuseKeyword("uniqueItems", alternative.pointer, "cannot be combined with contains");
    return compileUniqueItems(language, alternative, hint);
  }
  if (alternative.contains.length > 0) return compileContains(language, alternative, hint);

  const comma = sequence(literal(","), blank);
  const close = sequence(blank, literal("]"));
  const prefix = getPrefixLength(alternative.facets);
  // The loop runs from the last index to the first. Each iteration builds the grammar of the text that may follow the
  // first `index` items; `index` is at least 1.
  let after: Expression | undefined = compileItemsAfterPrefix(
    language,
    alternative,
    prefix,
    comma,
    close,
    hint,
  );
  let first: Expression | undefined;
  if (prefix === 0) {
    if (max === 0) return sequence(literal("["), blank, literal("]"));
    const item = language.valueRule(getItemSchemas(alternative, 0), `${hint}-item`);
    const more = compileMoreItems(
      language,
      item,
      min - 1,
      max === undefined ? undefined : max - 1,
      hint,
    );
    first = sequence(item, more, close);
  } else {
    for (let index = prefix - 1; index >= 0; index -= 1) {
      const item = language.valueRule(
        getItemSchemas(alternative, index),
        `${hint}-item-${index + 1}`,
      );
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
      after = rest && index % 8 === 0 ? nameRule(language, rest, hint) : rest;
    }
  }
  const inside = choice([min === 0 ? literal("]") : undefined, first]);
  return inside && sequence(literal("["), blank, inside);
}

/**
 * Compiles the rest of an array after its first `prefix` items. Returns undefined if `prefix` is 0, or if the array may
 * not have that many items.
 */
function compileItemsAfterPrefix(
  language: LanguageContext,
  alternative: ArrayAlternative,
  prefix: number,
  comma: Expression,
  close: Expression,
  hint: string,
): Expression | undefined {
  if (prefix === 0) return undefined;
  const { min, max } = alternative;
  if (max !== undefined && max < prefix) return undefined;
  const item = sequence(
    comma,
    language.valueRule(getItemSchemas(alternative, prefix), `${hint}-item`),
  );
  const more = repeatItem(
    language,
    item,
    Math.max(0, min - prefix),
    max === undefined ? undefined : max - prefix,
    hint,
  );
  return sequence(more, close);
}

function compileMoreItems(
  language: LanguageContext,
  item: Expression,
  min: number,
  max: number | undefined,
  hint: string,
): Expression {
  const another = sequence(literal(","), language.blank, item);
  return repeatItem(language, another, Math.max(0, min), max, hint);
}

/** Repeats a reference to a rule for the item, because llama.cpp would copy a repeated expression. */
function repeatItem(
  language: LanguageContext,
  item: Expression,
  min: number,
  max: number | undefined,
  hint: string,
): Expression {
  return max === 0 ? literal("") : repeat(nameRule(language, item, hint), min, max);
}

function nameRule(language: LanguageContext, body: Expression, hint: string): Expression {
  const name = language.table.reserve(`${hint}-next`);
  language.table.set(name, body);
  return rule(name);
}
