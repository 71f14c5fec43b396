import { arrayExpression } from "./array-language.ts";
import { characters, choice, empty, literal, rule } from "./combinators.ts";
import type { Expression } from "./expression.ts";
import type { LanguageContext } from "./language-context.ts";
import { objectExpression } from "./object-language.ts";
import type { Part, Schemas } from "./part.ts";
import { keyOf } from "./part.ts";
import type { RuleTable } from "./rule-table.ts";
import type { ShapeContext } from "./shape-context.ts";
import { oneOfTexts } from "./value-language.ts";

/** Makes rules of schemas. Each part has one rule, however often and from wherever it is used. */
export class SchemaLanguage implements LanguageContext {
  readonly shapes: ShapeContext;
  readonly table: RuleTable;
  readonly blank: Expression;
  readonly #values = new Map<string, Expression>();
  readonly #parts = new Map<string, Expression>();
  readonly #todo: (() => void)[] = [];

  constructor(shapes: ShapeContext, table: RuleTable) {
    this.shapes = shapes;
    this.table = table;
    const name = table.reserve("ws");
    table.set(name, choice([characters([10, 10], [32, 32]), empty]) ?? empty);
    this.blank = rule(name);
  }

  value(schemas: Schemas, hint: string): Expression {
    const key = schemas.join();
    let expression = this.#values.get(key);
    if (!expression) {
      const name = this.table.reserve(schemas.length === 0 ? "any" : hint);
      expression = rule(name);
      this.#values.set(key, expression);
      this.#todo.push(() => {
        const found = this.#union(this.shapes.of(schemas), name);
        if (found) this.table.set(name, found);
      });
    }
    return expression;
  }

  /** Fills in every rule that was asked for. Those that nothing meets are left without a body. */
  finish(): void {
    for (let next = this.#todo.pop(); next; next = this.#todo.pop()) next();
  }

  #union(parts: readonly Part[], hint: string): Expression | undefined {
    const texts: string[] = [];
    const options: (Expression | undefined)[] = [];
    for (const part of parts) {
      if (part.kind === "null") texts.push("null");
      else if (part.kind === "boolean") texts.push("true", "false");
      else if (part.kind === "values") texts.push(...part.values.map((v) => JSON.stringify(v)));
      else options.push(this.#part(part, hint));
    }
    return choice([oneOfTexts(texts, this.table), ...options]);
  }

  #part(part: Part, hint: string): Expression | undefined {
    const key = keyOf(part);
    const known = this.#parts.get(key);
    if (known) return known;
    const name = this.table.reserve(
      part.kind === "object" || part.kind === "array" ? hint : part.kind,
    );
    const expression = rule(name);
    this.#parts.set(key, expression);
    const body = this.#bodyOf(part, name);
    if (body) this.table.set(name, body);
    else this.shapes.note(`the ${part.kind} at ${placeOf(part)} has no value`);
    return expression;
  }

  #bodyOf(part: Part, hint: string): Expression | undefined {
    switch (part.kind) {
      case "string":
        return this.shapes.scalars.string(part.constraints, this.table);
      case "number":
        return this.shapes.scalars.number(part.constraints, this.table);
      case "array":
        return arrayExpression(this, part, hint);
      case "object":
        return objectExpression(this, part, hint);
      default:
        return literal("null");
    }
  }
}

/** Where the keywords stand that left nothing, as well as that is known. */
function placeOf(part: Part): string {
  if (part.kind === "object" || part.kind === "array") return part.pointer;
  if (part.kind === "number") return part.constraints.pointer;
  if (part.kind !== "string") return "#";
  const { patterns, formats } = part.constraints;
  return [...patterns, ...formats][0]?.pointer ?? "#";
}
