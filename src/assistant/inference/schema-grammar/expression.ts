/** What a rule of a grammar may be made of; `write-gbnf.ts` prints it as llama.cpp reads it. */
export type Expression =
  /** Exactly this text; "" is the empty text. */
  | { readonly kind: "literal"; readonly text: string }
  /** One code point out of these ranges, both ends included, sorted and apart. */
  | { readonly kind: "class"; readonly ranges: readonly CodePointRange[] }
  | { readonly kind: "sequence"; readonly items: readonly Expression[] }
  /** At least one option. */
  | { readonly kind: "choice"; readonly options: readonly Expression[] }
  /** `max` undefined: without end. */
  | {
      readonly kind: "repeat";
      readonly item: Expression;
      readonly min: number;
      readonly max: number | undefined;
    }
  | { readonly kind: "rule"; readonly name: string };

export type CodePointRange = readonly [from: number, to: number];

/** Where rules are collected while a schema is compiled; bounds what they may grow to. */
export interface RuleSink {
  /** A name that is not taken, made from `hint`; the rule has to be set before the grammar is written. */
  reserve(hint: string): string;
  /** Throws AssistantError `unsupported_schema` where the grammar has become too large. */
  set(name: string, expression: Expression): void;
}
