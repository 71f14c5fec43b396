import { choice, empty, repeat, sequence } from "./combinators.ts";
import type { Expression } from "./expression.ts";

/**
 * Takes out what no finite text ever comes of, such as an object that requires itself within itself, and
 * what nothing leads to. The language stays the same. Undefined: nothing is left of `root`.
 */
export function prune(
  rules: ReadonlyMap<string, Expression>,
  root: Expression,
): { readonly rules: ReadonlyMap<string, Expression>; readonly root: Expression } | undefined {
  const ending = endingRules(rules);
  const kept = new Map<string, Expression>();
  const bodies = endingPart(rules, ending);
  const direct = shortCuts(bodies);
  const start = without(root, ending);
  if (!start) return undefined;
  const top = rewritten(start, direct);
  const todo: Expression[] = [top];
  for (let next = todo.pop(); next; next = todo.pop()) {
    eachRuleIn(next, (name) => {
      if (kept.has(name)) return;
      const body = bodies.get(name);
      if (!body) throw new Error(`rule ${name} is not there`);
      const short = rewritten(body, direct);
      kept.set(name, short);
      todo.push(short);
    });
  }
  return { rules: kept, root: top };
}

/** The rules without what does not end; mostly that is none of it. */
function endingPart(
  rules: ReadonlyMap<string, Expression>,
  ending: ReadonlySet<string>,
): ReadonlyMap<string, Expression> {
  let isWhole = ending.size === rules.size;
  for (const expression of rules.values()) {
    if (!isWhole) break;
    eachRuleIn(expression, (name) => {
      isWhole &&= ending.has(name);
    });
  }
  if (isWhole) return rules;
  const bodies = new Map<string, Expression>();
  for (const [name, expression] of rules) {
    const body = without(expression, ending);
    if (body) bodies.set(name, body);
  }
  return bodies;
}

/** What stands for rules that are only another rule, or a text: there is no need to go by way of them. */
function shortCuts(bodies: ReadonlyMap<string, Expression>): ReadonlyMap<string, Expression> {
  const direct = new Map<string, Expression>();
  for (const [name, body] of bodies) {
    let target: Expression | undefined = body;
    const seen = new Set([name]);
    while (target?.kind === "rule" && !seen.has(target.name)) {
      seen.add(target.name);
      const next = bodies.get(target.name);
      if (next?.kind !== "rule" && next?.kind !== "literal") break;
      target = next;
    }
    if (target?.kind === "rule" || target?.kind === "literal") direct.set(name, target);
  }
  return direct;
}

function rewritten(expression: Expression, direct: ReadonlyMap<string, Expression>): Expression {
  switch (expression.kind) {
    case "rule":
      return direct.get(expression.name) ?? expression;
    case "repeat":
      return { ...expression, item: rewritten(expression.item, direct) };
    case "sequence":
      return sequence(...expression.items.map((item) => rewritten(item, direct)));
    case "choice":
      return choice(expression.options.map((option) => rewritten(option, direct))) ?? expression;
    default:
      return expression;
  }
}

/** Rules that come to an end somewhere: the least set that is closed. */
function endingRules(rules: ReadonlyMap<string, Expression>): ReadonlySet<string> {
  const ending = new Set<string>();
  // Rules are set before those that they lead to, so the last ones settle first.
  const open = new Map([...rules].toReversed());
  for (let grown = true; grown; ) {
    grown = false;
    for (const [name, expression] of open) {
      if (!ends(expression, ending)) continue;
      ending.add(name);
      open.delete(name);
      grown = true;
    }
  }
  return ending;
}

function ends(expression: Expression, ending: ReadonlySet<string>): boolean {
  switch (expression.kind) {
    case "literal":
      return true;
    case "class":
      return expression.ranges.length > 0;
    case "rule":
      return ending.has(expression.name);
    case "repeat":
      return expression.min === 0 || ends(expression.item, ending);
    case "sequence":
      return expression.items.every((item) => ends(item, ending));
    default:
      return expression.options.some((option) => ends(option, ending));
  }
}

function without(expression: Expression, ending: ReadonlySet<string>): Expression | undefined {
  switch (expression.kind) {
    case "literal":
      return expression;
    case "class":
      return expression.ranges.length > 0 ? expression : undefined;
    case "rule":
      return ending.has(expression.name) ? expression : undefined;
    case "repeat": {
      const item = without(expression.item, ending);
      if (item) return repeat(item, expression.min, expression.max);
      return expression.min === 0 ? empty : undefined;
    }
    case "sequence": {
      const items: Expression[] = [];
      for (const item of expression.items) {
        const rest = without(item, ending);
        if (!rest) return undefined;
        items.push(rest);
      }
      return sequence(...items);
    }
    default:
      return choice(expression.options.map((option) => without(option, ending)));
  }
}

function eachRuleIn(expression: Expression, found: (name: string) => void): void {
  switch (expression.kind) {
    case "rule":
      found(expression.name);
      break;
    case "repeat":
      eachRuleIn(expression.item, found);
      break;
    case "sequence":
      for (const item of expression.items) eachRuleIn(item, found);
      break;
    case "choice":
      for (const option of expression.options) eachRuleIn(option, found);
      break;
    default:
      break;
  }
}
