/** The body of a grammar rule; `write-gbnf.ts` writes it in llama.cpp's syntax. */
export type Expression =
  /** Matches exactly `text`. */
  | { readonly kind: "literal"; readonly text: string }
  /** Matches one code point of the `ranges`, which are inclusive, sorted and disjoint. */
  | { readonly kind: "class"; readonly ranges: readonly CodePointRange[] }
  | { readonly kind: "sequence"; readonly items: readonly Expression[] }
  /** Matches one of the `options`. The list is never empty. */
  | { readonly kind: "choice"; readonly options: readonly Expression[] }
  /** Matches repetitions of the item; if `max` is undefined, their number has no upper limit. */
  | {
      readonly kind: "repeat";
      readonly item: Expression;
      readonly min: number;
      readonly max: number | undefined;
    }
  | { readonly kind: "rule"; readonly name: string };

export type CodePointRange = readonly [from: number, to: number];

/** Collects the rules of a grammar and limits their size. */
export interface RuleSink {
  /** Returns an unused name based on `hint`; the rule must be set before the grammar is written. */
  reserve(hint: string): string;
  /** Sets a rule. Throws AssistantError `unsupported_schema` if the grammar becomes too large. */
  set(name: string, expression: Expression): void;
}
