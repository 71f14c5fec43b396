import { parse, tokenize } from "@huggingface/jinja";

/**
 * The syntax tree of a template, as the library's parser builds it. The library exports no types of the nodes, so they
 * are declared here.
 */
export type Statement =
  | { readonly type: "Comment" | "Break" | "Continue" }
  | {
      readonly type: "If";
      readonly test: Expression;
      readonly body: Block;
      readonly alternate: Block;
    }
  | ForStatement
  | {
      readonly type: "Set";
      readonly assignee: Expression;
      /** Null if the value is the text of the body. */
      readonly value: Expression | null;
      readonly body: Block;
    }
  | (ParameterizedBlock & { readonly type: "Macro"; readonly name: Identifier })
  | CallStatement
  | { readonly type: "FilterStatement"; readonly filter: FilterCall; readonly body: Block };

export type Block = readonly (Statement | Expression)[];

export interface ParameterizedBlock {
  readonly args: readonly Parameter[];
  readonly body: Block;
}

export interface ForStatement {
  readonly type: "For";
  readonly loopvar: Expression;
  readonly iterable: Expression;
  readonly body: Block;
  readonly defaultBlock: Block;
}

export interface CallStatement {
  readonly type: "CallStatement";
  readonly call: CallExpression;
  readonly callerArgs: readonly Parameter[] | null;
  readonly body: Block;
}

export type Expression =
  | Identifier
  | KeywordArgument
  | { readonly type: "IntegerLiteral" | "FloatLiteral"; readonly value: number }
  | { readonly type: "StringLiteral"; readonly value: string }
  | { readonly type: "ArrayLiteral" | "TupleLiteral"; readonly value: readonly Expression[] }
  | { readonly type: "ObjectLiteral"; readonly value: ReadonlyMap<Expression, Expression> }
  | MemberExpression
  | CallExpression
  | {
      readonly type: "BinaryExpression";
      readonly operator: Operator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly type: "UnaryExpression"; readonly operator: Operator; readonly argument: Expression }
  | { readonly type: "FilterExpression"; readonly operand: Expression; readonly filter: FilterCall }
  | {
      readonly type: "TestExpression";
      readonly operand: Expression;
      readonly negate: boolean;
      readonly test: Identifier;
    }
  | { readonly type: "SelectExpression"; readonly lhs: Expression; readonly test: Expression }
  | {
      readonly type: "Ternary";
      readonly condition: Expression;
      readonly trueExpr: Expression;
      readonly falseExpr: Expression;
    }
  | SliceExpression
  | {
      readonly type: "SpreadExpression" | "KeywordSpreadExpression";
      readonly argument: Expression;
    };

export interface Identifier {
  readonly type: "Identifier";
  readonly value: string;
}

export interface KeywordArgument {
  readonly type: "KeywordArgumentExpression";
  readonly key: Identifier;
  readonly value: Expression;
}

export interface MemberExpression {
  readonly type: "MemberExpression";
  readonly object: Expression;
  readonly property: Expression;
  /** True for `object[property]`, false for `object.property`. */
  readonly computed: boolean;
}

export interface CallExpression {
  readonly type: "CallExpression";
  readonly callee: Expression;
  readonly args: readonly Expression[];
}

export interface SliceExpression {
  readonly type: "SliceExpression";
  readonly start: Expression | undefined;
  readonly stop: Expression | undefined;
  readonly step: Expression | undefined;
}

export type FilterCall = Identifier | CallExpression;
export type Parameter = Identifier | KeywordArgument;

interface Operator {
  readonly value: string;
}

/** Parses a template with the options of chat templates. Throws the parser's errors. */
export function parseTemplate(source: string): Block {
  const program = parse(
    callTestsAsFilters(tokenize(source, { lstrip_blocks: true, trim_blocks: true })),
  );
  return program.body;
}

type Tokens = ReturnType<typeof tokenize>;

/** The prefix of a filter's name that stands for a test: `value is in list` is parsed as `value | is in(list)`. */
export const TEST_PREFIX = "is ";

/** The tests with an argument. The library's parser accepts only tests without one. */
const testsWithArgument = new Set(
  "in divisibleby sameas eq equalto ne lt lessthan le gt greaterthan ge".split(" "),
);

/** Rewrites each test that has an argument as a filter, because the parser accepts arguments of filters. */
function callTestsAsFilters(tokens: Tokens): Tokens {
  const result: Tokens = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at];
    if (token === undefined) break;
    const isNegated = tokens[at + 1]?.value === "not";
    const name = tokens[at + (isNegated ? 2 : 1)];
    if (token.type !== "Identifier" || token.value !== "is" || !name || !isTestWithArgument(name)) {
      result.push(token);
      continue;
    }
    const first = at + (isNegated ? 3 : 2);
    const end = findArgumentEnd(tokens, first);
    const isEnclosed = tokens[first]?.type === "OpenParen" && skipBrackets(tokens, first) === end;
    const argument = callTestsAsFilters(tokens.slice(first, end));
    result.push(
      { type: "Pipe", value: "|" },
      { type: "Identifier", value: `${TEST_PREFIX}${isNegated ? "not " : ""}${name.value}` },
    );
    if (isEnclosed) result.push(...argument);
    else {
      result.push({ type: "OpenParen", value: "(" });
      result.push(...argument, { type: "CloseParen", value: ")" });
    }
    at = end - 1;
  }
  return result;
}

function isTestWithArgument(token: Tokens[number]): boolean {
  return token.type === "Identifier" && testsWithArgument.has(token.value);
}

/** Returns the index after a test's argument: one primary expression with its attributes, items and calls. */
function findArgumentEnd(tokens: Tokens, first: number): number {
  let end = first;
  for (;;) {
    end = skipBrackets(tokens, end);
    const next = tokens[end]?.type;
    if (next === "Dot") end += 1;
    else if (next !== "OpenSquareBracket" && next !== "OpenParen") return end;
  }
}

/** Returns the index after the token at `at`, or after the bracket that closes the one at `at`. */
function skipBrackets(tokens: Tokens, at: number): number {
  let depth = 0;
  for (let index = at; index < tokens.length; index++) {
    const type = tokens[index]?.type ?? "";
    if (type.startsWith("Open")) depth += 1;
    else if (type.startsWith("Close")) depth -= 1;
    if (depth <= 0) return index + 1;
  }
  return tokens.length;
}
