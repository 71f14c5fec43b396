import type { CodePoints } from "./code-points.ts";

/** An ECMA-262 pattern as a tree. Groups are gone: what they capture does not change what is matched. */
export type RegexNode =
  /** One code point out of a set; an empty set matches nothing. */
  | { readonly kind: "class"; readonly points: CodePoints }
  /** No items: the empty text. */
  | { readonly kind: "sequence"; readonly items: readonly RegexNode[] }
  | { readonly kind: "choice"; readonly options: readonly RegexNode[] }
  /** Greedy or lazy, which is the same language. `max` undefined: without end. */
  | {
      readonly kind: "repeat";
      readonly item: RegexNode;
      readonly min: number;
      readonly max: number | undefined;
    }
  | { readonly kind: "start" }
  | { readonly kind: "end" }
  /** Lookahead. */
  | { readonly kind: "ahead"; readonly item: RegexNode; readonly negated: boolean }
  /** Lookbehind. */
  | { readonly kind: "behind"; readonly item: RegexNode; readonly negated: boolean };

export function makeSequence(items: readonly RegexNode[]): RegexNode {
  const [only] = items;
  return items.length === 1 && only !== undefined ? only : { kind: "sequence", items };
}

export function makeChoice(options: readonly RegexNode[]): RegexNode {
  const [only] = options;
  return options.length === 1 && only !== undefined ? only : { kind: "choice", options };
}
