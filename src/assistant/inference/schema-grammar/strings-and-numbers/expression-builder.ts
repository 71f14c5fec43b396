import type { CodePointRange, Expression, RuleSink } from "../expression.ts";
import { type CodePoints, normalizeCodePoints } from "./code-points.ts";

/** A hash-consed expression: equal expressions are the same object with the same `id`. */
export interface InternedExpression {
  readonly id: number;
  readonly expression: Expression;
  /** The approximate length of the expression's text in the grammar. */
  readonly weight: number;
}

/**
 * The largest count of a repetition; larger counts are divided into blocks, because llama.cpp creates a rule for each
 * repetition of the item and refuses more than 2,000.
 */
const REPEAT_MAX = 1_000;
/**
 * The maximum weight of an item that is repeated in place. The weight is approximately the length of the item's text. A
 * heavier item is moved to a rule of its own.
 */
const CLASS_WEIGHT_MAX = 40;

/** Builds hash-consed expressions and simplifies them: `a` `a{2}` becomes `a{3}`, `a|b` becomes `[ab]`. */
export class ExpressionBuilder {
  readonly empty: InternedExpression;
  private readonly sink: RuleSink;
  private readonly interned = new Map<string, InternedExpression>();
  private readonly classes = new Map<number, CodePoints>();
  private readonly alternatives = new Map<number, readonly InternedExpression[]>();
  private readonly sequenceItems = new Map<number, readonly InternedExpression[]>();
  private readonly repeats = new Map<number, RepeatParts>();
  private readonly rules = new Map<number, InternedExpression>();

  constructor(sink: RuleSink) {
    this.sink = sink;
    this.empty = this.literal("");
  }

  literal(text: string): InternedExpression {
    return this.intern(`"${text}`, { kind: "literal", text }, text.length + 3);
  }

  characterClass(points: CodePoints): InternedExpression {
    const [first] = points;
    if (points.length === 1 && first !== undefined && first[0] === first[1]) {
      return this.literal(String.fromCodePoint(first[0]));
    }
    const term = this.intern(
      `[${points.join()}`,
      { kind: "class", ranges: points },
      points.length * 9 + 3,
    );
    this.classes.set(term.id, points);
    return term;
  }

  rule(name: string): InternedExpression {
    return this.intern(`=${name}`, { kind: "rule", name }, name.length + 1);
  }

  sequence(items: readonly InternedExpression[]): InternedExpression {
    const flat: InternedExpression[] = [];
    for (const item of items.flatMap((one) => this.sequenceItems.get(one.id) ?? [one])) {
      const last = flat.at(-1);
      const joined = last === undefined ? undefined : this.tryJoin(last, item);
      if (item === this.empty) continue;
      if (joined === undefined) flat.push(item);
      else flat[flat.length - 1] = joined;
    }
    const [first] = flat;
    if (first === undefined) return this.empty;
    if (flat.length === 1) return first;
    const term = this.intern(
      `(${flat.map((item) => item.id).join()}`,
      { kind: "sequence", items: joinLiterals(flat.map((item) => item.expression)) },
      flat.reduce((total, item) => total + item.weight + 1, 0),
    );
    this.sequenceItems.set(term.id, flat);
    return term;
  }

  choice(options: readonly InternedExpression[]): InternedExpression {
    if (options.length > 1 && options.includes(this.empty)) {
      return this.repeat(this.choice(options.filter((option) => option !== this.empty)), 0, 1);
    }
    const ranges: CodePointRange[] = [];
    const others = new Set<InternedExpression>();
    for (const option of options.flatMap((one) => this.alternatives.get(one.id) ?? [one])) {
      const points = this.classes.get(option.id) ?? toSingleCodePoints(option);
      if (points === undefined) others.add(option);
      else ranges.push(...points);
    }
    const all =
      ranges.length === 0
        ? [...others]
        : [this.characterClass(normalizeCodePoints(ranges)), ...others];
    const [only] = all;
    if (all.length === 1 && only !== undefined) return only;
    const term = this.intern(
      `|${all.map((item) => item.id).join()}`,
      { kind: "choice", options: all.map((item) => item.expression) },
      all.reduce((total, item) => total + item.weight + 3, 2),
    );
    this.alternatives.set(term.id, all);
    return term;
  }

  /** Repeats `item`. A large count is divided into blocks, so that llama.cpp creates few rules. */
  repeat(item: InternedExpression, min: number, max: number | undefined): InternedExpression {
    if (item === this.empty || max === 0) return this.empty;
    if (min === 1 && max === 1) return item;
    const simple = min > 1 || (max ?? 0) > 1 ? this.toRepeatable(item) : item;
    if ((max ?? min) <= REPEAT_MAX) return this.internRepeat(simple, min, max);
    const rest = max === undefined ? undefined : max - min;
    return this.sequence([
      this.repeatExactly(simple, min),
      rest === undefined ? this.repeat(simple, 0, undefined) : this.repeatUpTo(simple, rest),
    ]);
  }

  /** Returns a reference to a rule with this expression as body; equal expressions share the rule. */
  extractRule(term: InternedExpression, hint: string): InternedExpression {
    if (term.expression.kind === "rule") return term;
    const before = this.rules.get(term.id);
    if (before !== undefined) return before;
    const name = this.sink.reserve(hint);
    this.sink.set(name, term.expression);
    const rule = this.rule(name);
    this.rules.set(term.id, rule);
    return rule;
  }

  private repeatExactly(item: InternedExpression, count: number): InternedExpression {
    if (count <= REPEAT_MAX) return this.internRepeat(item, count, count);
    const size = computeBlockSize(count);
    return this.sequence([
      this.internRepeat(this.block(item, size), Math.floor(count / size), Math.floor(count / size)),
      this.internRepeat(item, count % size, count % size),
    ]);
  }

  /**
   * Repeats `item` 0 to `count` times: first in blocks of a fixed size, then singly, so that every number of
   * repetitions is possible.
   */
  private repeatUpTo(item: InternedExpression, count: number): InternedExpression {
    if (count <= REPEAT_MAX) return this.internRepeat(item, 0, count);
    const size = computeBlockSize(count);
    const blocks = Math.floor((count - size + 1) / size);
    return this.sequence([
      this.internRepeat(this.block(item, size), 0, blocks),
      this.internRepeat(item, 0, count - blocks * size),
    ]);
  }

  private block(item: InternedExpression, size: number): InternedExpression {
    return this.extractRule(this.internRepeat(item, size, size), "block");
  }

  private internRepeat(
    item: InternedExpression,
    min: number,
    max: number | undefined,
  ): InternedExpression {
    if (max === 0) return this.empty;
    if (min === 1 && max === 1) return item;
    const term = this.intern(
      `{${item.id},${min},${max ?? ""}`,
      { kind: "repeat", item: item.expression, min, max },
      item.weight + 8,
    );
    this.repeats.set(term.id, { item, min, max });
    return term;
  }

  /**
   * Returns an expression that can be repeated at little cost: the item itself if it is small, otherwise a reference to
   * a new rule with the item. llama.cpp copies an item for each repetition, and multiplies the counts of nested
   * repetitions in one rule.
   */
  private toRepeatable(item: InternedExpression): InternedExpression {
    const { kind } = item.expression;
    const small = kind === "rule" || kind === "literal" || kind === "class";
    return small && item.weight <= CLASS_WEIGHT_MAX ? item : this.extractRule(item, "part");
  }

  private tryJoin(
    left: InternedExpression,
    right: InternedExpression,
  ): InternedExpression | undefined {
    const before = this.repeats.get(left.id) ?? { item: left, min: 1, max: 1 };
    const after = this.repeats.get(right.id) ?? { item: right, min: 1, max: 1 };
    if (before.item !== after.item) return undefined;
    // Two equal literals become one longer literal, not a repetition, unless one of them is already repeated, as in
    // `a{2}`.
    const counted = this.repeats.has(left.id) || this.repeats.has(right.id);
    if (!counted && left.expression.kind === "literal") return undefined;
    const min = before.min + after.min;
    const max =
      before.max === undefined || after.max === undefined ? undefined : before.max + after.max;
    if ((max ?? min) > REPEAT_MAX) return undefined;
    return this.internRepeat(before.item, min, max);
  }

  private intern(key: string, expression: Expression, weight: number): InternedExpression {
    const before = this.interned.get(key);
    if (before !== undefined) return before;
    const term = { id: this.interned.size, expression, weight };
    this.interned.set(key, term);
    return term;
  }
}

interface RepeatParts {
  readonly item: InternedExpression;
  readonly min: number;
  readonly max: number | undefined;
}

function computeBlockSize(count: number): number {
  return Math.min(REPEAT_MAX, Math.ceil(Math.sqrt(count)));
}

function toSingleCodePoints({ expression }: InternedExpression): CodePoints | undefined {
  if (expression.kind !== "literal") return undefined;
  const [first, second] = Array.from(expression.text);
  if (first === undefined || second !== undefined) return undefined;
  const value = first.codePointAt(0) ?? 0;
  return [[value, value]];
}

function joinLiterals(items: readonly Expression[]): Expression[] {
  const joined: Expression[] = [];
  for (const item of items) {
    const last = joined.at(-1);
    if (item.kind === "literal" && last?.kind === "literal") {
      joined[joined.length - 1] = { kind: "literal", text: last.text + item.text };
    } else {
      joined.push(item);
    }
  }
  return joined;
}
