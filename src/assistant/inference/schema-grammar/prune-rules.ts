import { choice, empty, repeat, sequence } from "./combinators.ts";
import type { Expression } from "./expression.ts";

/**
 * Removes expressions without a finite text, such as an object that requires itself, and unreachable rules.
 * The language stays the same. Returns undefined if `root` has no finite text.
 */
export function pruneRules(
  rules: ReadonlyMap<string, Expression>,
  root: Expression,
): { readonly rules: ReadonlyMap<string, Expression>; readonly root: Expression } | undefined {
  const productive = findProductiveRules(rules);
  const kept = new Map<string, Expression>();
  const bodies = keepProductive(rules, productive);
  const aliases = findAliases(bodies);
  const start = dropUnproductive(root, productive);
  if (!start) return undefined;
  const top = inlineAliases(start, aliases);
  const todo: Expression[] = [top];
  for (let next = todo.pop(); next; next = todo.pop()) {
    forEachRuleReference(next, (name) => {
      if (kept.has(name)) return;
      const body = bodies.get(name);
      if (!body) throw new Error(`the rule ${name} does not exist`);
      const short = inlineAliases(body, aliases);
      kept.set(name, short);
      todo.push(short);
    });
  }
  return { rules: kept, root: top };
}

/** Returns the rules without unproductive expressions; usually all rules are productive. */
function keepProductive(
  rules: ReadonlyMap<string, Expression>,
  productive: ReadonlySet<string>,
): ReadonlyMap<string, Expression> {
  let isWhole = productive.size === rules.size;
  for (const expression of rules.values()) {
    if (!isWhole) break;
    forEachRuleReference(expression, (name) => {
      isWhole &&= productive.has(name);
    });
  }
  if (isWhole) return rules;
  const bodies = new Map<string, Expression>();
  for (const [name, expression] of rules) {
    const body = dropUnproductive(expression, productive);
    if (body) bodies.set(name, body);
  }
  return bodies;
}

/** Finds rules that consist only of another rule or a literal, with their replacements. */
function findAliases(bodies: ReadonlyMap<string, Expression>): ReadonlyMap<string, Expression> {
  const aliases = new Map<string, Expression>();
  for (const [name, body] of bodies) {
    let target: Expression | undefined = body;
    const seen = new Set([name]);
    while (target?.kind === "rule" && !seen.has(target.name)) {
      seen.add(target.name);
      const next = bodies.get(target.name);
      if (next?.kind !== "rule" && next?.kind !== "literal") break;
      target = next;
    }
    if (target?.kind === "rule" || target?.kind === "literal") aliases.set(name, target);
  }
  return aliases;
}

function inlineAliases(
  expression: Expression,
  aliases: ReadonlyMap<string, Expression>,
): Expression {
  switch (expression.kind) {
    case "rule":
      return aliases.get(expression.name) ?? expression;
    case "repeat":
      return { ...expression, item: inlineAliases(expression.item, aliases) };
    case "sequence":
      return sequence(...expression.items.map((item) => inlineAliases(item, aliases)));
    case "choice":
      return (
        choice(expression.options.map((option) => inlineAliases(option, aliases))) ?? expression
      );
    default:
      return expression;
  }
}

/** Finds the rules from which a finite text can be derived, by computing a least fixed point. */
function findProductiveRules(rules: ReadonlyMap<string, Expression>): ReadonlySet<string> {
  const productive = new Set<string>();
  // `rules` lists a rule before the rules that it refers to. If the rules are visited in reverse order, the outer loop
  // needs fewer rounds.
  const open = new Map([...rules].toReversed());
  for (let grown = true; grown; ) {
    grown = false;
    for (const [name, expression] of open) {
      if (!isProductive(expression, productive)) continue;
      productive.add(name);
      open.delete(name);
      grown = true;
    }
  }
  return productive;
}

function isProductive(expression: Expression, productive: ReadonlySet<string>): boolean {
  switch (expression.kind) {
    case "literal":
      return true;
    case "class":
      return expression.ranges.length > 0;
    case "rule":
      return productive.has(expression.name);
    case "repeat":
      return expression.min === 0 || isProductive(expression.item, productive);
    case "sequence":
      return expression.items.every((item) => isProductive(item, productive));
    default:
      return expression.options.some((option) => isProductive(option, productive));
  }
}

function dropUnproductive(
  expression: Expression,
  productive: ReadonlySet<string>,
): Expression | undefined {
  switch (expression.kind) {
    case "literal":
      return expression;
    case "class":
      return expression.ranges.length > 0 ? expression : undefined;
    case "rule":
      return productive.has(expression.name) ? expression : undefined;
    case "repeat": {
      const item = dropUnproductive(expression.item, productive);
      if (item) return repeat(item, expression.min, expression.max);
      return expression.min === 0 ? empty : undefined;
    }
    case "sequence": {
      const items: Expression[] = [];
      for (const item of expression.items) {
        const rest = dropUnproductive(item, productive);
        if (!rest) return undefined;
        items.push(rest);
      }
      return sequence(...items);
    }
    default:
      return choice(expression.options.map((option) => dropUnproductive(option, productive)));
  }
}

function forEachRuleReference(expression: Expression, found: (name: string) => void): void {
  switch (expression.kind) {
    case "rule":
      found(expression.name);
      break;
    case "repeat":
      forEachRuleReference(expression.item, found);
      break;
    case "sequence":
      for (const item of expression.items) forEachRuleReference(item, found);
      break;
    case "choice":
      for (const option of expression.options) forEachRuleReference(option, found);
      break;
    default:
      break;
  }
}
