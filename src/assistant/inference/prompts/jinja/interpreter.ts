import { applyFilter } from "./filters.ts";
import { getAttribute, getItem, getSlice } from "./get-member.ts";
import { LoopControl, runLoop } from "./loop.ts";
import { applyOperator, applyUnary } from "./operators.ts";
import { toText } from "./print-value.ts";
import { Scope } from "./scope.ts";
import type {
  Block,
  CallExpression,
  CallStatement,
  Expression,
  FilterCall,
  ForStatement,
  MemberExpression,
  ParameterizedBlock,
  SliceExpression,
  Statement,
} from "./syntax-tree.ts";
import { findTest } from "./value-tests.ts";
import {
  Arguments,
  Attributes,
  type Callable,
  Float,
  isTruthy,
  iterate,
  nameType,
  Tuple,
  type Value,
  withoutSafety,
} from "./values.ts";

/**
 * The rendered text of a block. If `break` or `continue` interrupts a loop, the text that was written before is kept.
 */
interface Output {
  text: string;
}

/** Renders a block of a template. Throws if the template fails. */
export function renderBlock(block: Block, scope: Scope): string {
  const output = { text: "" };
  writeBlock(block, scope, output);
  return output.text;
}

function writeBlock(block: Block, scope: Scope, output: Output): void {
  for (const node of block) write(node, scope, output);
}

function write(node: Statement | Expression, scope: Scope, output: Output): void {
  switch (node.type) {
    case "Comment":
      return;
    case "If":
      writeBlock(isTruthy(evaluate(node.test, scope)) ? node.body : node.alternate, scope, output);
      return;
    case "For":
      writeLoop(node, scope, output);
      return;
    case "Set":
      assign(node.assignee, evaluateSet(node.value, node.body, scope), scope);
      return;
    case "Macro":
      scope.set(node.name.value, createMacro(node, scope));
      return;
    case "CallStatement":
      output.text += toText(callWithBlock(node, scope));
      return;
    case "FilterStatement":
      output.text += toText(filter(node.filter, renderBlock(node.body, new Scope(scope)), scope));
      return;
    case "Break":
    case "Continue":
      throw new LoopControl(node.type);
    default:
      output.text += toText(evaluate(node, scope));
  }
}

/** Returns the value of a `set` statement: an expression, or the text of its body. */
function evaluateSet(value: Expression | null, body: Block, scope: Scope): Value {
  return value === null ? renderBlock(body, new Scope(scope)) : evaluate(value, scope);
}

function evaluate(node: Expression, scope: Scope): Value {
  switch (node.type) {
    case "IntegerLiteral":
    case "StringLiteral":
      return node.value;
    case "FloatLiteral":
      return new Float(node.value);
    case "ArrayLiteral":
      return node.value.map((item) => evaluate(item, scope));
    case "TupleLiteral":
      return Tuple.create(...node.value.map((item) => evaluate(item, scope)));
    case "ObjectLiteral":
      return new Map(
        [...node.value].map(([key, item]) => [
          withoutSafety(evaluate(key, scope)),
          evaluate(item, scope),
        ]),
      );
    case "Identifier":
      return scope.get(node.value);
    case "MemberExpression":
      return evaluateMember(node, scope);
    case "CallExpression":
      return call(node, scope);
    case "UnaryExpression":
      return applyUnary(node.operator.value, evaluate(node.argument, scope));
    case "BinaryExpression":
      return evaluateBinary(node.operator.value, node.left, node.right, scope);
    case "FilterExpression":
      return filter(node.filter, evaluate(node.operand, scope), scope);
    case "TestExpression":
      return (
        findTest(node.test.value)(withoutSafety(evaluate(node.operand, scope)), undefined) !==
        node.negate
      );
    case "SelectExpression":
      return isTruthy(evaluate(node.test, scope)) ? evaluate(node.lhs, scope) : undefined;
    case "Ternary":
      return evaluate(
        isTruthy(evaluate(node.condition, scope)) ? node.trueExpr : node.falseExpr,
        scope,
      );
    default:
      throw new Error(`the template has an unexpected ${node.type}`);
  }
}

function evaluateBinary(
  operator: string,
  leftNode: Expression,
  rightNode: Expression,
  scope: Scope,
): Value {
  const left = evaluate(leftNode, scope);
  if (operator === "and") return isTruthy(left) ? evaluate(rightNode, scope) : left;
  if (operator === "or") return isTruthy(left) ? left : evaluate(rightNode, scope);
  return applyOperator(operator, left, evaluate(rightNode, scope));
}

function evaluateMember({ object, property, computed }: MemberExpression, scope: Scope): Value {
  const value = evaluate(object, scope);
  if (property.type === "SliceExpression") return evaluateSlice(value, property, scope);
  if (computed) return getItem(value, evaluate(property, scope));
  if (property.type === "Identifier") return getAttribute(value, property.value);
  return getItem(value, evaluate(property, scope));
}

function evaluateSlice(object: Value, slice: SliceExpression, scope: Scope): Value {
  const [start, stop, step] = [slice.start, slice.stop, slice.step].map(
    (index) => index && evaluate(index, scope),
  );
  return getSlice(object, start, stop, step);
}

function call({ callee, args }: CallExpression, scope: Scope): Value {
  const callable = evaluate(callee, scope);
  return toCallable(callable)(evaluateArguments(args, scope));
}

function toCallable(value: Value): Callable {
  if (typeof value === "function") return value;
  throw new TypeError(`${nameType(value)} cannot be called`);
}

function evaluateArguments(nodes: readonly Expression[], scope: Scope): Arguments {
  const positional: Value[] = [];
  const named = new Map<string, Value>();
  for (const node of nodes) {
    if (node.type === "SpreadExpression") {
      positional.push(...iterate(evaluate(node.argument, scope)));
    } else if (node.type === "KeywordArgumentExpression") {
      named.set(node.key.value, evaluate(node.value, scope));
    } else if (node.type === "KeywordSpreadExpression") {
      const values = evaluate(node.argument, scope);
      if (!(values instanceof Map)) throw new TypeError(`${nameType(values)} is not a dictionary`);
      for (const [key, value] of values) named.set(toText(key), value);
    } else {
      positional.push(evaluate(node, scope));
    }
  }
  return new Arguments(positional, named);
}

function filter(node: FilterCall, value: Value, scope: Scope): Value {
  if (node.type === "Identifier") return applyFilter(node.value, value, new Arguments([]));
  if (node.callee.type !== "Identifier") throw new Error("a filter must have a name");
  return applyFilter(node.callee.value, value, evaluateArguments(node.args, scope));
}

function writeLoop(node: ForStatement, scope: Scope, output: Output): void {
  const { iterable } = node;
  const condition = iterable.type === "SelectExpression" ? iterable.test : undefined;
  const source = iterable.type === "SelectExpression" ? iterable.lhs : iterable;
  const items = iterate(evaluate(source, scope)).filter((item) => {
    if (condition === undefined) return true;
    const inner = new Scope(scope);
    assign(node.loopvar, item, inner);
    return isTruthy(evaluate(condition, inner));
  });
  if (items.length === 0) writeBlock(node.defaultBlock, new Scope(scope), output);
  runLoop(items, (item, loop) => {
    // Each iteration begins without the variables that the iteration before has set.
    const inner = new Scope(scope);
    inner.set("loop", loop);
    assign(node.loopvar, item, inner);
    writeBlock(node.body, inner, output);
  });
}

function assign(target: Expression, value: Value, scope: Scope): void {
  if (target.type === "Identifier") {
    scope.set(target.value, value);
  } else if (target.type === "TupleLiteral" || target.type === "ArrayLiteral") {
    const values = iterate(value);
    if (values.length !== target.value.length)
      throw new RangeError(`${values.length} values cannot be unpacked to ${target.value.length}`);
    for (const [index, part] of target.value.entries()) assign(part, values[index], scope);
  } else if (target.type === "MemberExpression" && target.property.type === "Identifier") {
    const object = evaluate(target.object, scope);
    if (!(object instanceof Attributes))
      throw new TypeError(`${nameType(object)} has no attributes that can be set`);
    object.values.set(target.property.value, value);
  } else {
    throw new Error("a template assigns a value to an expression");
  }
}

/** Creates the function of a macro, which reads the variables of the block that defines it. */
function createMacro({ args, body }: ParameterizedBlock, scope: Scope): Callable {
  const parameters = args.map((parameter) =>
    parameter.type === "Identifier"
      ? { name: parameter.value, fallback: undefined }
      : { name: parameter.key.value, fallback: parameter.value },
  );
  return ({ positional, named }) => {
    const inner = new Scope(scope);
    const rest = new Map(named);
    inner.set("caller", rest.get("caller"));
    rest.delete("caller");
    for (const [index, { name, fallback }] of parameters.entries()) {
      const isGiven = index < positional.length || named.has(name);
      const given = index < positional.length ? positional[index] : named.get(name);
      rest.delete(name);
      inner.set(name, isGiven || fallback === undefined ? given : evaluate(fallback, inner));
    }
    inner.set("varargs", Tuple.create(...positional.slice(parameters.length)));
    inner.set("kwargs", new Map<Value, Value>(rest));
    return renderBlock(body, inner);
  };
}

function callWithBlock({ call: node, callerArgs, body }: CallStatement, scope: Scope): Value {
  const { positional, named } = evaluateArguments(node.args, scope);
  const caller = createMacro({ args: callerArgs ?? [], body }, scope);
  const callable = toCallable(evaluate(node.callee, scope));
  return callable(new Arguments(positional, new Map([...named, ["caller", caller]])));
}
