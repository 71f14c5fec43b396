import { evaluate, evaluateCall, evaluateFilter } from "./evaluate.ts";
import { Loop, LoopControl } from "./loop.ts";
import { toText } from "./print-value.ts";
import { Scope } from "./scope.ts";
import type {
  Block,
  FilterCall,
  ForStatement,
  ParameterizedBlock,
  Statement,
  Target,
} from "./syntax-tree.ts";
import {
  Attributes,
  type Callable,
  isTruthy,
  iterate,
  nameType,
  Tuple,
  type Value,
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

function write(node: Statement, scope: Scope, output: Output): void {
  switch (node.type) {
    case "Text":
      output.text += node.text;
      return;
    case "Output":
      output.text += toText(evaluate(node.value, scope));
      return;
    case "If":
      writeBlock(isTruthy(evaluate(node.test, scope)) ? node.body : node.alternate, scope, output);
      return;
    case "For":
      writeLoop(node, evaluate(node.iterable, scope), 0, scope, output);
      return;
    case "Break":
    case "Continue":
      throw new LoopControl(node.type);
    case "Set":
      assign(node.target, evaluate(node.value, scope), scope);
      return;
    case "SetBlock":
      assign(node.target, renderFiltered(node, scope), scope);
      return;
    case "With": {
      const inner = new Scope(scope);
      for (const { target, value } of node.variables) assign(target, evaluate(value, scope), inner);
      writeBlock(node.body, inner, output);
      return;
    }
    case "Macro":
      scope.set(node.name, createMacro(node, scope));
      return;
    case "CallBlock":
      output.text += toText(evaluateCall(node.call, scope, [["caller", createMacro(node, scope)]]));
      return;
    case "FilterBlock":
      output.text += toText(renderFiltered(node, scope));
      return;
    case "NamedBlock":
      writeBlock(node.body, new Scope(node.isScoped ? scope : scope.ofTemplate), output);
      return;
    case "Scope":
      writeBlock(node.body, new Scope(scope), output);
      return;
    case "Unsupported":
      throw new Error(`the statement "${node.tag}" is not supported`);
  }
}

/** Returns the text of a block to which the filters have been applied. */
function renderFiltered(
  { filters, body }: { readonly filters: readonly FilterCall[]; readonly body: Block },
  scope: Scope,
): Value {
  return filters.reduce<Value>(
    (value, filter) => evaluateFilter(filter, value, scope),
    renderBlock(body, new Scope(scope)),
  );
}

function writeLoop(
  node: ForStatement,
  items: Value,
  depth: number,
  scope: Scope,
  output: Output,
): void {
  const renderInner = (innerItems: Value, innerDepth: number): string => {
    const inner = { text: "" };
    writeLoop(node, innerItems, innerDepth, scope, inner);
    return inner.text;
  };
  const loop = new Loop(
    selectItems(node, iterate(items), scope),
    depth,
    node.isRecursive ? renderInner : undefined,
  );
  let hasCompleted = false;
  while (loop.advance()) {
    // Each iteration begins without the variables that the iteration before has set.
    const inner = new Scope(scope);
    inner.set("loop", loop);
    assign(node.target, loop.item, inner);
    try {
      writeBlock(node.body, inner, output);
      hasCompleted = true;
    } catch (error) {
      if (!(error instanceof LoopControl)) throw error;
      if (error.kind === "Break") break;
    }
  }
  // An iteration that is interrupted does not count, as in Jinja.
  if (!hasCompleted) writeBlock(node.otherwise, new Scope(scope), output);
}

function* selectItems(
  { target, condition }: ForStatement,
  items: readonly Value[],
  scope: Scope,
): Generator<Value> {
  for (const item of items) {
    const inner = new Scope(scope);
    if (condition !== undefined) assign(target, item, inner);
    if (condition === undefined || isTruthy(evaluate(condition, inner))) yield item;
  }
}

function assign(target: Target, value: Value, scope: Scope): void {
  if (target.type === "Variable") {
    scope.set(target.name, value);
  } else if (target.type === "NamespaceAttribute") {
    const namespace = scope.get(target.namespace);
    if (!(namespace instanceof Attributes))
      throw new TypeError(`${nameType(namespace)} has no attributes that can be set`);
    namespace.set(target.name, value);
  } else {
    const values = iterate(value);
    if (values.length !== target.items.length)
      throw new RangeError(`${values.length} values cannot be unpacked to ${target.items.length}`);
    for (const [index, item] of target.items.entries()) assign(item, values[index], scope);
  }
}

/** Creates the function of a macro, which reads the variables of the block that defines it. */
function createMacro({ parameters, body }: ParameterizedBlock, scope: Scope): Callable {
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
