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

/** Builds the rules of schemas. Equal alternatives share one rule. */
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

  /** Builds the bodies of all requested rules; a rule that no value meets gets none. */
  finish(): void {
    for (let next = this.#todo.pop(); next; next = this.#todo.pop()) next();
  }

  #compileUnion(parts: readonly Alternative[], hint: string): Expression | undefined {
    const texts: string[] = [];
    const options: (Expression | undefined)[] = [];
    for (const part of parts) {
      if (part.kind === "null") texts.push("null");
      else if (part.kind === "boolean") texts.push("true", "false");
      else if (part.kind === "values") texts.push(...part.values.map((v) => JSON.stringify(v)));
      else options.push(this.#alternativeRule(part, hint));
    }
    return choice([compileLiterals(texts, this.table), ...options]);
  }

  #alternativeRule(part: Alternative, hint: string): Expression | undefined {
    const key = getAlternativeKey(part);
    const known = this.#alternatives.get(key);
    if (known) return known;
    const name = this.table.reserve(
      part.kind === "object" || part.kind === "array" ? hint : part.kind,
    );
    const expression = rule(name);
    this.#alternatives.set(key, expression);
    const body = this.#compileBody(part, name);
    if (body) this.table.set(name, body);
    else
      this.normalizer.recordContradiction(`the ${part.kind} at ${findPointer(part)} has no value`);
    return expression;
  }

  #compileBody(part: Alternative, hint: string): Expression | undefined {
    switch (part.kind) {
      case "string":
        return this.normalizer.scalars.compileString(part.constraints, this.table);
      case "number":
        return this.normalizer.scalars.compileNumber(part.constraints, this.table);
      case "array":
        return compileArray(this, part, hint);
      case "object":
        return compileObject(this, part, hint);
      default:
        return literal("null");
    }
  }
}

/** Returns the pointer of the alternative's keywords, as far as it is known. */
function findPointer(part: Alternative): string {
  if (part.kind === "object" || part.kind === "array") return part.pointer;
  if (part.kind === "number") return part.constraints.pointer;
  if (part.kind !== "string") return "#";
  const { patterns, formats } = part.constraints;
  return [...patterns, ...formats][0]?.pointer ?? "#";
}
