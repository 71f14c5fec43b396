import {
  type CallArguments,
  type CallExpression,
  type Expression,
  type FilterCall,
  noArguments,
  type Target,
} from "./syntax-tree.ts";
import type { TokenReader } from "./token-reader.ts";
import { Float } from "./values.ts";

const comparisons: readonly string[] = ["==", "!=", "<", "<=", ">", ">="];
const constants: ReadonlyMap<string, boolean | null> = new Map([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);

/** Parses an expression, or several ones with commas, which are a tuple. */
export function parseTuple(
  reader: TokenReader,
  options: {
    /** False in a loop's head and in a test, where "if" has another meaning. */
    readonly hasConditional?: boolean;
    readonly endName?: string;
    readonly isInBrackets?: boolean;
  } = {},
): Expression {
  const isEnd = (): boolean =>
    reader.peek().kind === "tag end" ||
    reader.isOperator(")") ||
    (options.endName !== undefined && reader.isName(options.endName));
  const { items, isTuple } = parseItems(reader, isEnd, () =>
    options.hasConditional === false ? parseOr(reader) : parseExpression(reader),
  );
  const [first] = items;
  if (!isTuple && first !== undefined) return first;
  if (!isTuple && options.isInBrackets !== true) throw reader.error("an expression is missing");
  return { type: "Tuple", items };
}

/** Parses what a value is assigned to: names, attributes of namespaces, and tuples of these. */
export function parseTarget(reader: TokenReader, endName?: string): Target {
  const isEnd = (): boolean =>
    reader.peek().kind === "tag end" ||
    reader.isOperator(")") ||
    (endName !== undefined && reader.isName(endName));
  const { items, isTuple } = parseItems(reader, isEnd, () => parseOneTarget(reader));
  const [first] = items;
  if (!isTuple && first !== undefined) return first;
  if (!isTuple) throw reader.error("a name is missing");
  return { type: "TupleTarget", items };
}

function parseOneTarget(reader: TokenReader): Target {
  if (reader.skipOperator("(")) {
    const target = parseTarget(reader);
    reader.expectOperator(")");
    return target;
  }
  const name = reader.expect("name");
  if (constants.has(name)) throw reader.error(`a value is assigned to "${name}"`);
  if (!reader.skipOperator(".")) return { type: "Variable", name };
  return { type: "NamespaceAttribute", namespace: name, name: reader.expect("name") };
}

function parseItems<Item>(
  reader: TokenReader,
  isEnd: () => boolean,
  parse: () => Item,
): { readonly items: readonly Item[]; readonly isTuple: boolean } {
  const items: Item[] = [];
  let isTuple = false;
  while (!isEnd()) {
    items.push(parse());
    if (!reader.skipOperator(",")) break;
    isTuple = true;
  }
  return { items, isTuple };
}

export function parseExpression(reader: TokenReader): Expression {
  let expression = parseOr(reader);
  while (reader.skipName("if")) {
    const test = parseOr(reader);
    const whenFalse = reader.skipName("else") ? parseExpression(reader) : undefined;
    expression = { type: "Conditional", test, whenTrue: expression, whenFalse };
  }
  return expression;
}

function parseOr(reader: TokenReader): Expression {
  let left = parseAnd(reader);
  while (reader.skipName("or"))
    left = { type: "Logical", operator: "or", left, right: parseAnd(reader) };
  return left;
}

function parseAnd(reader: TokenReader): Expression {
  let left = parseNot(reader);
  while (reader.skipName("and"))
    left = { type: "Logical", operator: "and", left, right: parseNot(reader) };
  return left;
}

function parseNot(reader: TokenReader): Expression {
  return reader.skipName("not")
    ? { type: "Unary", operator: "not", operand: parseNot(reader) }
    : parseComparison(reader);
}

function parseComparison(reader: TokenReader): Expression {
  const first = parseSum(reader);
  const rest: { operator: string; operand: Expression }[] = [];
  for (;;) {
    const operator = readComparison(reader);
    if (operator === undefined) break;
    rest.push({ operator, operand: parseSum(reader) });
  }
  return rest.length === 0 ? first : { type: "Comparison", first, rest };
}

function readComparison(reader: TokenReader): string | undefined {
  if (reader.skipName("in")) return "in";
  if (reader.areNames("not", "in")) {
    reader.next();
    reader.next();
    return "not in";
  }
  const { kind, text } = reader.peek();
  return kind === "operator" && comparisons.includes(text) ? reader.next().text : undefined;
}

/** Parses operators of one precedence, the operands of which `parseOperand` parses. */
function parseBinary(
  reader: TokenReader,
  operators: readonly string[],
  parseOperand: (reader: TokenReader) => Expression,
): Expression {
  let left = parseOperand(reader);
  for (;;) {
    const { kind, text: operator } = reader.peek();
    if (kind !== "operator" || !operators.includes(operator)) return left;
    reader.next();
    left = { type: "Binary", operator, left, right: parseOperand(reader) };
  }
}

function parseSum(reader: TokenReader): Expression {
  return parseBinary(reader, ["+", "-"], parseConcatenation);
}

/** "~" binds closer than "+". */
function parseConcatenation(reader: TokenReader): Expression {
  const first = parseProduct(reader);
  const parts = [first];
  while (reader.skipOperator("~")) parts.push(parseProduct(reader));
  return parts.length === 1 ? first : { type: "Concatenation", parts };
}

function parseProduct(reader: TokenReader): Expression {
  return parseBinary(reader, ["*", "/", "//", "%"], parsePower);
}

/** In contrast to Python, a power of a power is computed from the left, and the sign binds closer. */
function parsePower(reader: TokenReader): Expression {
  return parseBinary(reader, ["**"], (operands) => parseFilters(operands, parseSigned(operands)));
}

function parseSigned(reader: TokenReader): Expression {
  for (const operator of ["-", "+"])
    if (reader.skipOperator(operator))
      return parsePostfix(reader, { type: "Unary", operator, operand: parseSigned(reader) });
  return parsePostfix(reader, parsePrimary(reader));
}

function parsePrimary(reader: TokenReader): Expression {
  const { kind, text } = reader.next();
  if (kind === "name") {
    const constant = constants.get(text);
    return constant === undefined
      ? { type: "Variable", name: text }
      : { type: "Literal", value: constant };
  }
  if (kind === "string") {
    let value = text;
    while (reader.peek().kind === "string") value += reader.next().text;
    return { type: "Literal", value };
  }
  const digits = text.replaceAll("_", "");
  if (kind === "integer") return { type: "Literal", value: Number(digits) };
  if (kind === "float") return { type: "Literal", value: new Float(Number(digits)) };
  if (kind === "operator" && text === "(") {
    const expression = parseTuple(reader, { isInBrackets: true });
    reader.expectOperator(")");
    return expression;
  }
  if (kind === "operator" && text === "[")
    return { type: "List", items: parseListed(reader, "]", parseExpression) };
  if (kind === "operator" && text === "{") {
    const entries = parseListed(reader, "}", () => {
      const key = parseExpression(reader);
      reader.expectOperator(":");
      return { key, value: parseExpression(reader) };
    });
    return { type: "Dictionary", entries };
  }
  throw reader.error(`an expression cannot begin with ${text === "" ? kind : `"${text}"`}`);
}

/** Parses the items up to a closing bracket, in front of which a comma is allowed. */
function parseListed<Item>(
  reader: TokenReader,
  end: string,
  parse: (reader: TokenReader) => Item,
): readonly Item[] {
  const { items } = parseItems(
    reader,
    () => reader.isOperator(end),
    () => parse(reader),
  );
  reader.expectOperator(end);
  return items;
}

function parsePostfix(reader: TokenReader, operand: Expression): Expression {
  let expression = operand;
  for (;;) {
    if (reader.skipOperator(".")) expression = parseMember(reader, expression);
    else if (reader.skipOperator("[")) expression = parseItem(reader, expression);
    else if (reader.isOperator("(")) expression = parseCall(reader, expression);
    else return expression;
  }
}

function parseMember(reader: TokenReader, object: Expression): Expression {
  if (reader.peek().kind !== "integer")
    return { type: "Attribute", object, name: reader.expect("name") };
  return { type: "Item", object, key: parsePrimary(reader) };
}

function parseItem(reader: TokenReader, object: Expression): Expression {
  if (reader.skipOperator("]")) return { type: "Item", object, key: { type: "Tuple", items: [] } };
  const start = reader.isOperator(":") ? undefined : parseExpression(reader);
  if (start !== undefined && !reader.isOperator(":")) {
    const more = reader.skipOperator(",") ? parseListed(reader, "]", parseExpression) : undefined;
    if (more !== undefined)
      return { type: "Item", object, key: { type: "Tuple", items: [start, ...more] } };
    reader.expectOperator("]");
    return { type: "Item", object, key: start };
  }
  const [stop, step] = [parseSlicePart(reader), parseSlicePart(reader)];
  reader.expectOperator("]");
  return { type: "Slice", object, start, stop, step };
}

function parseSlicePart(reader: TokenReader): Expression | undefined {
  if (!reader.skipOperator(":")) return undefined;
  return reader.isOperator(":") || reader.isOperator("]") ? undefined : parseExpression(reader);
}

function parseCall(reader: TokenReader, callee: Expression): CallExpression {
  return { type: "Call", callee, args: parseArguments(reader) };
}

function parseArguments(reader: TokenReader): CallArguments {
  reader.expectOperator("(");
  const positional: Expression[] = [];
  const named: { name: string; value: Expression }[] = [];
  let morePositional: Expression | undefined;
  let moreNamed: Expression | undefined;
  parseListed(reader, ")", () => {
    if (moreNamed !== undefined) throw reader.error('an argument follows "**"');
    if (reader.skipOperator("**")) moreNamed = parseExpression(reader);
    else if (morePositional === undefined && reader.skipOperator("*"))
      morePositional = parseExpression(reader);
    else if (reader.peek().kind === "name" && reader.isOperator("=", 1)) {
      const name = reader.expect("name");
      reader.expectOperator("=");
      named.push({ name, value: parseExpression(reader) });
    } else if (named.length > 0 || morePositional !== undefined)
      throw reader.error("an argument without a name follows others");
    else positional.push(parseExpression(reader));
  });
  return { positional, named, morePositional, moreNamed };
}

/** Parses the filters and tests that are applied to an operand. */
function parseFilters(reader: TokenReader, operand: Expression): Expression {
  let expression = operand;
  for (;;) {
    if (reader.skipOperator("|"))
      expression = { type: "Filter", operand: expression, filter: parseFilter(reader) };
    else if (reader.skipName("is")) expression = parseTest(reader, expression);
    else if (reader.isOperator("(")) expression = parseCall(reader, expression);
    else return expression;
  }
}

export function parseFilter(reader: TokenReader): FilterCall {
  const name = parseDottedName(reader);
  return { name, args: reader.isOperator("(") ? parseArguments(reader) : noArguments };
}

function parseTest(reader: TokenReader, operand: Expression): Expression {
  const isNegated = reader.skipName("not");
  const name = parseDottedName(reader);
  const test: Expression = { type: "Test", operand, name, args: parseTestArguments(reader) };
  return isNegated ? { type: "Unary", operator: "not", operand: test } : test;
}

/** A test has the arguments in brackets, or one argument without brackets, or none. */
function parseTestArguments(reader: TokenReader): CallArguments {
  if (reader.isOperator("(")) return parseArguments(reader);
  const { kind, text } = reader.peek();
  const isArgument =
    ["name", "string", "integer", "float"].includes(kind) ||
    (kind === "operator" && (text === "[" || text === "{"));
  if (!isArgument || reader.isName("else", "or", "and")) return noArguments;
  if (reader.isName("is")) throw reader.error("a test follows a test");
  return { ...noArguments, positional: [parsePostfix(reader, parsePrimary(reader))] };
}

function parseDottedName(reader: TokenReader): string {
  let name = reader.expect("name");
  while (reader.skipOperator(".")) name += `.${reader.expect("name")}`;
  return name;
}
