import { parseExpression, parseFilter, parseTarget, parseTuple } from "./parse-expression.ts";
import type {
  Block,
  Expression,
  FilterCall,
  ParameterizedBlock,
  Statement,
} from "./syntax-tree.ts";
import { TokenReader } from "./token-reader.ts";

/** Parses a template. Throws SyntaxError. */
export function parseTemplate(source: string): Block {
  const reader = new TokenReader(source);
  const { block } = parseBlock(reader, []);
  return block;
}

/** The statement parsers by the name of the tag, which has been read. */
const statements: Readonly<Record<string, (reader: TokenReader) => Statement>> = {
  if: parseIf,
  for: parseFor,
  break: () => ({ type: "Break" }),
  continue: () => ({ type: "Continue" }),
  set: parseSet,
  with: parseWith,
  macro: parseMacro,
  call: parseCallBlock,
  filter: parseFilterBlock,
  block: parseNamedBlock,
  print: parsePrint,
  // Training marks the text of an answer with it.
  generation: (reader) => ({ type: "Scope", body: parseBody(reader, "endgeneration") }),
  autoescape: parseAutoescape,
  extends: (reader) => parseUnsupported(reader, "extends"),
  include: (reader) => parseUnsupported(reader, "include"),
  import: (reader) => parseUnsupported(reader, "import"),
  from: (reader) => parseUnsupported(reader, "from"),
};

/**
 * Parses statements up to a tag with one of these names, or up to the end of the template if there are none. Returns
 * the name of the tag, the rest of which has not been read.
 */
function parseBlock(
  reader: TokenReader,
  ends: readonly string[],
): { readonly block: Block; readonly end: string } {
  const block: Statement[] = [];
  for (;;) {
    const { kind, text } = reader.next();
    if (kind === "text") block.push({ type: "Text", text });
    else if (kind === "output") {
      block.push({ type: "Output", value: parseTuple(reader) });
      expectTagEnd(reader);
    } else if (kind === "statement") {
      const name = reader.expect("name");
      if (ends.includes(name)) return { block, end: name };
      const parse = Object.hasOwn(statements, name) ? statements[name] : undefined;
      if (parse === undefined) throw reader.error(`the statement "${name}" is unknown`);
      block.push(parse(reader));
      expectTagEnd(reader);
    } else if (ends.length === 0) return { block, end: "" };
    else throw reader.error(`"${ends.join('" or "')}" is missing`);
  }
}

function expectTagEnd(reader: TokenReader): void {
  if (reader.next().kind !== "tag end") throw reader.error("the end of the tag is missing");
}

/** Parses the end of a tag, and the block after it up to the tag with one of these names. */
function parseBodyUpTo(
  reader: TokenReader,
  ends: readonly string[],
): ReturnType<typeof parseBlock> {
  reader.skipOperator(":");
  expectTagEnd(reader);
  return parseBlock(reader, ends);
}

function parseBody(reader: TokenReader, end: string): Block {
  return parseBodyUpTo(reader, [end]).block;
}

function parseIf(reader: TokenReader): Statement {
  const test = parseTuple(reader, { hasConditional: false });
  const { block: body, end } = parseBodyUpTo(reader, ["elif", "else", "endif"]);
  if (end === "elif") return { type: "If", test, body, alternate: [parseIf(reader)] };
  const alternate = end === "else" ? parseBody(reader, "endif") : [];
  return { type: "If", test, body, alternate };
}

function parseFor(reader: TokenReader): Statement {
  const target = parseTarget(reader, "in");
  reader.expectName("in");
  const iterable = parseTuple(reader, { hasConditional: false, endName: "recursive" });
  const condition = reader.skipName("if") ? parseExpression(reader) : undefined;
  const isRecursive = reader.skipName("recursive");
  const { block: body, end } = parseBodyUpTo(reader, ["endfor", "else"]);
  const otherwise = end === "else" ? parseBody(reader, "endfor") : [];
  return { type: "For", target, iterable, condition, isRecursive, body, otherwise };
}

function parseSet(reader: TokenReader): Statement {
  const target = parseTarget(reader);
  if (reader.skipOperator("=")) return { type: "Set", target, value: parseTuple(reader) };
  const filters: FilterCall[] = [];
  while (reader.skipOperator("|")) filters.push(parseFilter(reader));
  return { type: "SetBlock", target, filters, body: parseBody(reader, "endset") };
}

function parseWith(reader: TokenReader): Statement {
  const variables = [];
  while (reader.peek().kind !== "tag end") {
    if (variables.length > 0) reader.expectOperator(",");
    const target = parseTarget(reader);
    reader.expectOperator("=");
    variables.push({ target, value: parseExpression(reader) });
  }
  return { type: "With", variables, body: parseBody(reader, "endwith") };
}

function parseMacro(reader: TokenReader): Statement {
  const name = reader.expect("name");
  const parameters = parseParameters(reader);
  return { type: "Macro", name, parameters, body: parseBody(reader, "endmacro") };
}

function parseCallBlock(reader: TokenReader): Statement {
  const parameters = reader.isOperator("(") ? parseParameters(reader) : [];
  const call = parseExpression(reader);
  if (call.type !== "Call") throw reader.error("a call is missing");
  return { type: "CallBlock", parameters, call, body: parseBody(reader, "endcall") };
}

function parseParameters(reader: TokenReader): ParameterizedBlock["parameters"] {
  const parameters: { name: string; fallback: Expression | undefined }[] = [];
  reader.expectOperator("(");
  while (!reader.isOperator(")")) {
    if (parameters.length > 0) reader.expectOperator(",");
    const name = reader.expect("name");
    const fallback = reader.skipOperator("=") ? parseExpression(reader) : undefined;
    parameters.push({ name, fallback });
  }
  reader.expectOperator(")");
  return parameters;
}

function parseFilterBlock(reader: TokenReader): Statement {
  const filters = [parseFilter(reader)];
  while (reader.skipOperator("|")) filters.push(parseFilter(reader));
  return { type: "FilterBlock", filters, body: parseBody(reader, "endfilter") };
}

function parseNamedBlock(reader: TokenReader): Statement {
  const name = reader.expect("name");
  const isScoped = reader.skipName("scoped");
  reader.skipName("required");
  const body = parseBody(reader, "endblock");
  reader.skipName(name);
  return { type: "NamedBlock", name, isScoped, body };
}

function parsePrint(reader: TokenReader): Statement {
  const body: Statement[] = [];
  while (reader.peek().kind !== "tag end") {
    if (body.length > 0) reader.expectOperator(",");
    body.push({ type: "Output", value: parseExpression(reader) });
  }
  return { type: "Scope", body };
}

/** Prompts are not HTML, so a template may only switch the escaping off. */
function parseAutoescape(reader: TokenReader): Statement {
  const value = parseExpression(reader);
  const body = parseBody(reader, "endautoescape");
  const unsupported: Statement = { type: "Unsupported", tag: "autoescape true" };
  return { type: "If", test: value, body: [unsupported], alternate: [{ type: "Scope", body }] };
}

/** A model file has one template, so there is none that another statement could load. */
function parseUnsupported(reader: TokenReader, tag: string): Statement {
  while (reader.peek().kind !== "tag end") reader.next();
  return { type: "Unsupported", tag };
}
