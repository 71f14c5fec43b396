import type { CodePoints } from "./code-points.ts";

/** An ECMA-262 pattern as a tree. Groups are omitted, because capturing does not change which texts match. */
export type RegexNode =
  /** One code point of a set; an empty set matches nothing. */
  | { readonly kind: "class"; readonly points: CodePoints }
  /** The items one after the other; without items, the empty text. */
  | { readonly kind: "sequence"; readonly items: readonly RegexNode[] }
  | { readonly kind: "choice"; readonly options: readonly RegexNode[] }
  /**
   * A repetition, whether greedy or lazy, because both match the same texts. If `max` is undefined, there is no upper
   * limit.
   */
  | {
      readonly kind: "repeat";
      readonly item: RegexNode;
      readonly min: number;
      readonly max: number | undefined;
    }
  | { readonly kind: "start" }
  | { readonly kind: "end" }
  /** A lookahead. */
  | { readonly kind: "ahead"; readonly item: RegexNode; readonly negated: boolean }
  /** A lookbehind. */
  | { readonly kind: "behind"; readonly item: RegexNode; readonly negated: boolean };

export function makeSequence(items: readonly RegexNode[]): RegexNode {
  const [only] = items;
  return items.length === 1 && only !== undefined ? only : { kind: "sequence", items };
}

export function makeChoice(options: readonly RegexNode[]): RegexNode {
  const [only] = options;
  return options.length === 1 && only !== undefined ? only : { kind: "choice", options };
}
