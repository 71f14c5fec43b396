import { applyFilter, isFilterName } from "./filters.ts";
import { getAttribute, getItem, getSlice } from "./get-member.ts";
import { Loop } from "./loop.ts";
import { applyOperator, applyUnary } from "./operators.ts";
import { toText } from "./print-value.ts";
import type { Scope } from "./scope.ts";
import type { CallArguments, CallExpression, Expression, FilterCall } from "./syntax-tree.ts";
import { applyTest, isTestName } from "./value-tests.ts";
import {
  Arguments,
  type Callable,
  isTruthy,
  iterate,
  nameType,
  Tuple,
  type Value,
  withoutSafety,
} from "./values.ts";

/** Evaluates an expression. Throws if an operator, a filter or a function does not accept its operands. */
export function evaluate(node: Expression, scope: Scope): Value {
  switch (node.type) {
    case "Literal":
      return node.value;
    case "Variable":
      return scope.get(node.name);
    case "List":
      return node.items.map((item) => evaluate(item, scope));
    case "Tuple":
      return Tuple.create(...node.items.map((item) => evaluate(item, scope)));
    case "Dictionary":
      return new Map(
        node.entries.map(({ key, value }) => [
          withoutSafety(evaluate(key, scope)),
          evaluate(value, scope),
        ]),
      );
    case "Attribute":
      return getAttribute(evaluate(node.object, scope), node.name);
    case "Item":
      return getItem(evaluate(node.object, scope), evaluate(node.key, scope));
    case "Slice": {
      const object = evaluate(node.object, scope);
      const [start, stop, step] = [node.start, node.stop, node.step].map(
        (part) => part && evaluate(part, scope),
      );
      return getSlice(object, start, stop, step);
    }
    case "Call":
      return evaluateCall(node, scope);
    case "Unary":
      return applyUnary(node.operator, evaluate(node.operand, scope));
    case "Binary":
      return applyOperator(node.operator, evaluate(node.left, scope), evaluate(node.right, scope));
    case "Logical": {
      const left = evaluate(node.left, scope);
      return isTruthy(left) === (node.operator === "or") ? left : evaluate(node.right, scope);
    }
    case "Comparison":
      return evaluateComparison(node.first, node.rest, scope);
    case "Concatenation":
      return node.parts.map((part) => toText(evaluate(part, scope))).join("");
    case "Filter":
      return evaluateFilter(node.filter, evaluate(node.operand, scope), scope);
    case "Test": {
      const operand = evaluate(node.operand, scope);
      if (node.name === "filter") return isFilterName(operand);
      if (node.name === "test") return isTestName(operand);
      const { positional, named } = evaluateArguments(node.args, scope);
      return applyTest(node.name, operand, [...positional, ...named.values()][0]);
    }
    case "Conditional": {
      const chosen = isTruthy(evaluate(node.test, scope)) ? node.whenTrue : node.whenFalse;
      return chosen && evaluate(chosen, scope);
    }
    default:
      return node satisfies never;
  }
}

/** Applies a filter of the template to a value. */
export function evaluateFilter(filter: FilterCall, value: Value, scope: Scope): Value {
  return applyFilter(filter.name, value, evaluateArguments(filter.args, scope));
}

/** Calls a function. `more` are arguments that the call does not name. */
export function evaluateCall(
  { callee, args }: CallExpression,
  scope: Scope,
  more: readonly [string, Value][] = [],
): Value {
  const callable = toCallable(evaluate(callee, scope));
  const { positional, named } = evaluateArguments(args, scope);
  return callable(new Arguments(positional, new Map([...named, ...more])));
}

function toCallable(value: Value): Callable {
  if (typeof value === "function") return value;
  if (value instanceof Loop) return (args) => value.call(args);
  throw new TypeError(`${nameType(value)} cannot be called`);
}

function evaluateArguments(args: CallArguments, scope: Scope): Arguments {
  const positional = args.positional.map((node) => evaluate(node, scope));
  if (args.morePositional !== undefined)
    positional.push(...iterate(evaluate(args.morePositional, scope)));
  const named = new Map(args.named.map(({ name, value }) => [name, evaluate(value, scope)]));
  if (args.moreNamed !== undefined) {
    const values = evaluate(args.moreNamed, scope);
    if (!(values instanceof Map)) throw new TypeError(`${nameType(values)} is not a dictionary`);
    for (const [key, value] of values) named.set(toText(key), value);
  }
  return new Arguments(positional, named);
}

/** Compares each value with the next one, until a comparison is false. */
function evaluateComparison(
  first: Expression,
  rest: readonly { readonly operator: string; readonly operand: Expression }[],
  scope: Scope,
): Value {
  let left = evaluate(first, scope);
  for (const { operator, operand } of rest) {
    const right = evaluate(operand, scope);
    if (applyOperator(operator, left, right) !== true) return false;
    left = right;
  }
  return true;
}
