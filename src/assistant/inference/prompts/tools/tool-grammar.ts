import { literal, rule } from "../../schema-grammar/combinators.ts";
import type { GrammarLayout } from "../../schema-grammar/compile-schema.ts";
import type { Expression } from "../../schema-grammar/expression.ts";
import { buildTextNotStartingWith, buildTextUntilMarker } from "./marker-grammar.ts";
import type { ToolFormat } from "./tool-format.ts";

/**
 * The maximum number of calls in one answer, which the API documents. Without a limit, a small model would call tools
 * until the token limit if a call is required.
 */
const CALLS_MAX = 16;

export interface AnswerConstraints {
  readonly format: ToolFormat;
  /** The tools that may be called. */
  readonly tools: readonly CallableTool[];
  /** True if an answer without a call is allowed. */
  readonly isCallOptional: boolean;
  readonly allowsSeveralCalls: boolean;
  /** The schema for an answer that calls no tool; undefined if such an answer may be any text. */
  readonly document: { readonly schema: unknown } | undefined;
  readonly thinking: Thinking | undefined;
}

export interface CallableTool {
  readonly name: string;
  /** The tool's index in the request. */
  readonly index: number;
  /** The JSON Schema of the arguments, of type object. */
  readonly schema: unknown;
}

/** The tags around a model's reasoning. */
export interface Thinking {
  readonly open: string;
  readonly close: string;
  /** True if the prompt ends with the tag `open`, so that the answer begins with the reasoning. */
  readonly isOpened: boolean;
}

/** Returns the name of the grammar rule for a tool's arguments. */
export function getArgumentsRuleName(index: number): string {
  return `arguments-${index}`;
}

/** Returns the index of the tool whose arguments rule has this name; undefined for other rules. */
export function parseToolIndex(name: string | undefined): number | undefined {
  const index = /^arguments-(\d+)$/.exec(name ?? "")?.[1];
  return index === undefined ? undefined : Number(index);
}

/** The name of the grammar rule for an answer that must match a schema. */
export const documentRuleName = "document";

/** Builds the grammar of an answer; undefined if any text is allowed. */
export function buildAnswerLayout(constraints: AnswerConstraints): GrammarLayout | undefined {
  const { tools, document, thinking, isCallOptional } = constraints;
  if (tools.length === 0 && document === undefined) return undefined;
  const rules: Record<string, Expression> = {};
  const schemas: Record<string, unknown> = {};
  if (document !== undefined) schemas[documentRuleName] = document.schema;
  for (const tool of tools) schemas[getArgumentsRuleName(tool.index)] = tool.schema;
  const answer = buildAnswerExpression(constraints, rules);
  if (thinking === undefined) return { root: answer, rules, schemas };
  // The white space that templates use; without a limit, small models would repeat it forever.
  const space: Expression = {
    kind: "repeat",
    item: {
      kind: "class",
      ranges: [
        [0x0a, 0x0a],
        [0x20, 0x20],
      ],
    },
    min: 0,
    max: 2,
  };
  const rest = buildTextUntilMarker(
    thinking.close,
    { kind: "sequence", items: [space, rule("answer")] },
    { name: "thought", mayEnd: false, rules },
  );
  rules["answer"] = answer;
  if (thinking.isOpened) return { root: rest, rules, schemas };
  // The rule for free text allows any text, so it covers the reasoning as well.
  if (isCallOptional && document === undefined) return { root: answer, rules, schemas };
  const thought = sequence(literal(thinking.open), rest);
  return { root: { kind: "choice", options: [rule("answer"), thought] }, rules, schemas };
}

function buildAnswerExpression(
  constraints: AnswerConstraints,
  rules: Record<string, Expression>,
): Expression {
  const { format, tools, document, isCallOptional } = constraints;
  if (tools.length === 0) return rule(documentRuleName);
  rules["call"] = {
    kind: "choice",
    options: tools.map((tool) =>
      sequence(
        literal(writeName(format, tool.name) + format.between),
        rule(getArgumentsRuleName(tool.index)),
        literal(format.after),
      ),
    ),
  };
  const further = sequence(literal(format.separator + format.before), rule("call"));
  const allowsMore = constraints.allowsSeveralCalls && format.allowsSeveralCalls;
  const rest: readonly Expression[] = [
    rule("call"),
    ...(allowsMore ? [{ kind: "repeat", item: further, min: 0, max: CALLS_MAX - 1 } as const] : []),
    literal(format.close),
  ];
  const begin = format.open + format.before;
  const calls = sequence(literal(begin), ...rest);
  if (!isCallOptional) return calls;
  if (document !== undefined) return { kind: "choice", options: [rule(documentRuleName), calls] };
  if (format.marker !== undefined) {
    const after = sequence(literal(begin.slice(format.marker.length)), ...rest);
    return buildTextUntilMarker(format.marker, after, { name: "text", mayEnd: true, rules });
  }
  const beginnings = tools.map((tool): [string, Expression] => [
    `${begin}${writeName(format, tool.name)}"`,
    sequence(
      literal(format.between.slice(1)),
      rule(getArgumentsRuleName(tool.index)),
      literal(format.after + format.close),
    ),
  ]);
  return buildTextNotStartingWith(new Map(beginnings), { name: "text", rules });
}

function writeName(format: ToolFormat, name: string): string {
  return format.isObject ? JSON.stringify(name).slice(1, -1) : name;
}

function sequence(...items: readonly Expression[]): Expression {
  return {
    kind: "sequence",
    items: items.filter((item) => item.kind !== "literal" || item.text !== ""),
  };
}
