import { AssistantError } from "../../assistant-error.ts";
import type { Expression, RuleSink } from "./expression.ts";
import { schemaLimits } from "./schema-limits.ts";

const HINT_MAX = 24;

/** Collects the rules of one grammar and limits their estimated size. */
export class RuleTable implements RuleSink {
  readonly rules = new Map<string, Expression>();
  readonly #taken = new Set<string>();
  readonly #numbers = new Map<string, number>();
  #size = 0;

  /** The estimated size of the rules as text. */
  get size(): number {
    return this.#size;
  }

  reserve(hint: string): string {
    // Other characters are replaced, because rule names in llama.cpp have only letters, digits and hyphens.
    const base =
      hint
        .replaceAll(/[^a-zA-Z0-9]+/g, "-")
        .replaceAll(/^-+|-+$/g, "")
        .slice(0, HINT_MAX) || "rule";
    let number = this.#numbers.get(base) ?? 0;
    let name = number === 0 ? base : `${base}-${number}`;
    while (this.#taken.has(name)) {
      number += 1;
      name = `${base}-${number}`;
    }
    this.#numbers.set(base, number + 1);
    this.#taken.add(name);
    return name;
  }

  set(name: string, expression: Expression): void {
    this.#size += name.length + estimateSize(expression);
    if (this.#size > schemaLimits.grammarBytes) throw grammarTooLarge();
    this.rules.set(name, expression);
  }
}

/** Copies rules into another sink under unused names; returns `root` with the new names. */
export function copyRules(
  sink: RuleSink,
  rules: ReadonlyMap<string, Expression>,
  root: Expression,
  hint: string,
): Expression {
  const names = new Map([...rules.keys()].map((name) => [name, sink.reserve(`${hint}-${name}`)]));
  const rename = (expression: Expression): Expression => {
    switch (expression.kind) {
      case "rule":
        return { kind: "rule", name: names.get(expression.name) ?? expression.name };
      case "sequence":
        return { kind: "sequence", items: expression.items.map(rename) };
      case "choice":
        return { kind: "choice", options: expression.options.map(rename) };
      case "repeat":
        return { ...expression, item: rename(expression.item) };
      default:
        return expression;
    }
  };
  for (const [name, expression] of rules) sink.set(names.get(name) ?? name, rename(expression));
  return rename(root);
}

export function grammarTooLarge(): AssistantError {
  return new AssistantError(
    "unsupported_schema",
    `The schema results in a grammar of more than ${schemaLimits.grammarBytes / 1024} KiB; make the schema smaller: fewer properties, alternatives or values`,
  );
}

/**
 * Returns a lower bound of the expression's size as text, so that a grammar that is too large is refused early;
 * `write-gbnf.ts` measures the exact size.
 */
function estimateSize(expression: Expression): number {
  switch (expression.kind) {
    case "literal":
      return expression.text.length + 2;
    case "class":
      return expression.ranges.length;
    case "rule":
      return expression.name.length;
    case "repeat":
      return 1 + estimateSize(expression.item);
    case "sequence":
      return expression.items.reduce((sum, item) => sum + estimateSize(item), 0);
    default:
      return expression.options.reduce((sum, option) => sum + estimateSize(option), 0);
  }
}
