import { compileArray } from "./array-language.ts";
import { characters, choice, empty, literal, rule } from "./combinators.ts";
import type { Expression } from "./expression.ts";
import type { LanguageContext } from "./language-context.ts";
import { compileLiterals } from "./literal-trie.ts";
import type { Alternative, SchemaConjunction } from "./normal-form.ts";
import { getAlternativeKey } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import { compileObject } from "./object-language.ts";
import type { RuleTable } from "./rule-table.ts";

/** Builds the grammar rules of schemas. Equal alternatives share one rule. */
export class SchemaLanguage implements LanguageContext {
  readonly normalizer: NormalizerContext;
  readonly table: RuleTable;
  readonly blank: Expression;
  readonly #values = new Map<string, Expression>();
  readonly #alternatives = new Map<string, Expression>();
  readonly #todo: (() => void)[] = [];

  constructor(normalizer: NormalizerContext, table: RuleTable) {
    this.normalizer = normalizer;
    this.table = table;
    const name = table.reserve("ws");
    table.set(name, choice([characters([10, 10], [32, 32]), empty]) ?? empty);
    this.blank = rule(name);
  }

  valueRule(schemas: SchemaConjunction, hint: string): Expression {
    const key = schemas.join();
    let expression = this.#values.get(key);
    if (!expression) {
      const name = this.table.reserve(schemas.length === 0 ? "any" : hint);
      expression = rule(name);
      this.#values.set(key, expression);
      this.#todo.push(() => {
        const found = this.#compileUnion(this.normalizer.normalize(schemas), name);
        if (found) this.table.set(name, found);
      });
    }
    return expression;
  }

  /** Builds the bodies of all requested rules; a rule that no value matches gets no body. */
  finish(): void {
    for (let next = this.#todo.pop(); next; next = this.#todo.pop()) next();
  }

  #compileUnion(alternatives: readonly Alternative[], hint: string): Expression | undefined {
    const texts: string[] = [];
    const options: (Expression | undefined)[] = [];
    for (const alternative of alternatives) {
      if (alternative.kind === "null") texts.push("null");
      else if (alternative.kind === "boolean") texts.push("true", "false");
      else if (alternative.kind === "values")
        texts.push(...alternative.values.map((v) => JSON.stringify(v)));
      else options.push(this.#alternativeRule(alternative, hint));
    }
    return choice([compileLiterals(texts, this.table), ...options]);
  }

  #alternativeRule(alternative: Alternative, hint: string): Expression | undefined {
    const key = getAlternativeKey(alternative);
    const known = this.#alternatives.get(key);
    if (known) return known;
    const name = this.table.reserve(
      alternative.kind === "object" || alternative.kind === "array" ? hint : alternative.kind,
    );
    const expression = rule(name);
    this.#alternatives.set(key, expression);
    const body = this.#compileBody(alternative, name);
    if (body) this.table.set(name, body);
    else
      this.normalizer.recordContradiction(
        `the ${alternative.kind} at ${findPointer(alternative)} has no value`,
      );
    return expression;
  }

  #compileBody(alternative: Alternative, hint: string): Expression | undefined {
    switch (alternative.kind) {
      case "string":
        return this.normalizer.scalars.compileString(alternative.constraints, this.table);
      case "number":
        return this.normalizer.scalars.compileNumber(alternative.constraints, this.table);
      case "array":
        return compileArray(this, alternative, hint);
      case "object":
        return compileObject(this, alternative, hint);
      default:
        return literal("null");
    }
  }
}

/** Returns the JSON Pointer of the keywords from which an alternative was built, for messages; `#` if it is unknown. */
function findPointer(alternative: Alternative): string {
  if (alternative.kind === "object" || alternative.kind === "array") return alternative.pointer;
  if (alternative.kind === "number") return alternative.constraints.pointer;
  if (alternative.kind !== "string") return "#";
  const { patterns, formats } = alternative.constraints;
  return [...patterns, ...formats][0]?.pointer ?? "#";
}
