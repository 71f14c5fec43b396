import type { Value } from "./values.ts";

/** The syntax tree of a template. */
export type Block = readonly Statement[];

export type Statement =
  | { readonly type: "Text"; readonly text: string }
  | { readonly type: "Output"; readonly value: Expression }
  | {
      readonly type: "If";
      readonly test: Expression;
      readonly body: Block;
      readonly alternate: Block;
    }
  | ForStatement
  | { readonly type: "Break" | "Continue" }
  | { readonly type: "Set"; readonly target: Target; readonly value: Expression }
  | {
      /** Sets the target to the text of the body, to which the filters are applied. */
      readonly type: "SetBlock";
      readonly target: Target;
      readonly filters: readonly FilterCall[];
      readonly body: Block;
    }
  | {
      readonly type: "With";
      readonly variables: readonly { readonly target: Target; readonly value: Expression }[];
      readonly body: Block;
    }
  | MacroStatement
  | CallStatement
  | {
      readonly type: "FilterBlock";
      readonly filters: readonly FilterCall[];
      readonly body: Block;
    }
  | NamedBlock
  /** A block with its own variables, such as the one that marks the text of an answer for training. */
  | { readonly type: "Scope"; readonly body: Block }
  /** A statement that the template may contain but not execute. */
  | { readonly type: "Unsupported"; readonly tag: string };

export interface ForStatement {
  readonly type: "For";
  readonly target: Target;
  readonly iterable: Expression;
  /** The loop leaves out the items that do not meet the condition. */
  readonly condition: Expression | undefined;
  readonly isRecursive: boolean;
  readonly body: Block;
  /** Rendered if there are no items. */
  readonly otherwise: Block;
}

/** Parameters with their defaults, and the block that reads them. */
export interface ParameterizedBlock {
  readonly parameters: readonly {
    readonly name: string;
    readonly fallback: Expression | undefined;
  }[];
  readonly body: Block;
}

export interface MacroStatement extends ParameterizedBlock {
  readonly type: "Macro";
  readonly name: string;
}

/** Calls a macro that can render the block of this statement as `caller()`. */
export interface CallStatement extends ParameterizedBlock {
  readonly type: "CallBlock";
  readonly call: CallExpression;
}

export interface NamedBlock {
  readonly type: "NamedBlock";
  readonly name: string;
  /** True if the block reads the variables of the loop that contains it. */
  readonly isScoped: boolean;
  readonly body: Block;
}

/** What a value is assigned to: a variable, an attribute of a namespace, or a tuple of these. */
export type Target =
  | { readonly type: "Variable"; readonly name: string }
  | { readonly type: "NamespaceAttribute"; readonly namespace: string; readonly name: string }
  | { readonly type: "TupleTarget"; readonly items: readonly Target[] };

export type Expression =
  | { readonly type: "Literal"; readonly value: Value }
  | { readonly type: "Variable"; readonly name: string }
  | { readonly type: "List" | "Tuple"; readonly items: readonly Expression[] }
  | {
      readonly type: "Dictionary";
      readonly entries: readonly { readonly key: Expression; readonly value: Expression }[];
    }
  | { readonly type: "Attribute"; readonly object: Expression; readonly name: string }
  | { readonly type: "Item"; readonly object: Expression; readonly key: Expression }
  | SliceExpression
  | CallExpression
  | { readonly type: "Unary"; readonly operator: string; readonly operand: Expression }
  | {
      readonly type: "Binary" | "Logical";
      readonly operator: string;
      readonly left: Expression;
      readonly right: Expression;
    }
  | {
      /** `first < second <= third`: true if each comparison of two neighbours is true. */
      readonly type: "Comparison";
      readonly first: Expression;
      readonly rest: readonly { readonly operator: string; readonly operand: Expression }[];
    }
  | { readonly type: "Concatenation"; readonly parts: readonly Expression[] }
  | { readonly type: "Filter"; readonly operand: Expression; readonly filter: FilterCall }
  | {
      readonly type: "Test";
      readonly operand: Expression;
      readonly name: string;
      readonly args: CallArguments;
    }
  | {
      readonly type: "Conditional";
      readonly test: Expression;
      readonly whenTrue: Expression;
      /** Without it the value is undefined if the test is false. */
      readonly whenFalse: Expression | undefined;
    };

export interface CallExpression {
  readonly type: "Call";
  readonly callee: Expression;
  readonly args: CallArguments;
}

export interface SliceExpression {
  readonly type: "Slice";
  readonly object: Expression;
  readonly start: Expression | undefined;
  readonly stop: Expression | undefined;
  readonly step: Expression | undefined;
}

export interface FilterCall {
  readonly name: string;
  readonly args: CallArguments;
}

export interface CallArguments {
  readonly positional: readonly Expression[];
  readonly named: readonly { readonly name: string; readonly value: Expression }[];
  /** The operands of `*` and `**`: a sequence and a dictionary of further arguments. */
  readonly morePositional: Expression | undefined;
  readonly moreNamed: Expression | undefined;
}

export const noArguments: CallArguments = {
  positional: [],
  named: [],
  morePositional: undefined,
  moreNamed: undefined,
};
