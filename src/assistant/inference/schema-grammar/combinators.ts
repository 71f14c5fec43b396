import type { CodePointRange, Expression } from "./expression.ts";

/** Short constructors of expressions. Undefined means that no text matches. */

export const empty: Expression = { kind: "literal", text: "" };

export function literal(text: string): Expression {
  return { kind: "literal", text };
}

export function rule(name: string): Expression {
  return { kind: "rule", name };
}

export function characters(...ranges: readonly CodePointRange[]): Expression {
  return { kind: "class", ranges };
}

/**
 * Returns an expression that matches the items one after the other. Joins adjacent literals and flattens nested
 * sequences.
 */
export function sequence(...items: readonly Expression[]): Expression {
  const flat: Expression[] = [];
  for (const item of items) {
    if (item.kind === "sequence") for (const inner of item.items) append(flat, inner);
    else append(flat, item);
  }
  const [first] = flat;
  if (first === undefined) return empty;
  return flat.length === 1 ? first : { kind: "sequence", items: flat };
}

function append(flat: Expression[], item: Expression): void {
  if (item.kind === "literal") {
    if (item.text === "") return;
    const last = flat.at(-1);
    if (last?.kind === "literal") {
      flat[flat.length - 1] = literal(last.text + item.text);
      return;
    }
  }
  flat.push(item);
}

/** Returns a choice of the options that are defined; undefined if there are none. */
export function choice(options: readonly (Expression | undefined)[]): Expression | undefined {
  const flat = options.flatMap((option) => {
    if (option === undefined) return [];
    return option.kind === "choice" ? option.options : [option];
  });
  const [first] = flat;
  return flat.length > 1 ? { kind: "choice", options: flat } : first;
}

export function repeat(item: Expression, min: number, max: number | undefined): Expression {
  if (max === 0) return empty;
  if (min === 1 && max === 1) return item;
  return { kind: "repeat", item, min, max };
}
