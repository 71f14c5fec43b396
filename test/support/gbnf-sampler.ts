import type { GbnfElement, GbnfGrammar } from "./gbnf-grammar.ts";

/** Returns numbers from 0 (inclusive) to 1 (exclusive). */
export type RandomNumbers = () => number;

/**
 * Samples random texts of a grammar. After `softMax` characters it always chooses the alternative with the shortest
 * text, so that each sample ends.
 */
export class GbnfSampler {
  readonly #grammar: GbnfGrammar;
  /** For each rule of the grammar, the length in characters of the shortest text that matches the rule. */
  readonly #fewest: number[];

  constructor(grammar: GbnfGrammar) {
    this.#grammar = grammar;
    this.#fewest = computeFewestCharacters(grammar);
    if (!Number.isFinite(this.#fewest[grammar.root]))
      throw new Error("the grammar has no finite text");
  }

  sample(random: RandomNumbers, softMax = 200): string {
    let text = "";
    const todo: GbnfElement[] = [{ kind: "rule", rule: this.#grammar.root }];
    for (let element = todo.pop(); element; element = todo.pop()) {
      if (element.kind === "class") {
        text += sampleCharacter(element, random);
        continue;
      }
      const alternatives = this.#grammar.rules[element.rule] ?? [];
      const open = alternatives.filter((entry) => Number.isFinite(this.#lengthOf(entry)));
      const chosen =
        text.length < softMax
          ? open[Math.floor(random() * open.length)]
          : open.toSorted((a, b) => this.#lengthOf(a) - this.#lengthOf(b))[0];
      todo.push(...(chosen ?? []).toReversed());
    }
    return text;
  }

  #lengthOf(alternative: readonly GbnfElement[]): number {
    return lengthOf(alternative, this.#fewest);
  }
}

function lengthOf(alternative: readonly GbnfElement[], fewest: readonly number[]): number {
  return alternative.reduce(
    (sum, element) =>
      sum + (element.kind === "class" ? 1 : (fewest[element.rule] ?? Number.POSITIVE_INFINITY)),
    0,
  );
}

function computeFewestCharacters(grammar: GbnfGrammar): number[] {
  const fewest = grammar.rules.map(() => Number.POSITIVE_INFINITY);
  for (let changed = true; changed; ) {
    changed = false;
    for (const [id, rule] of grammar.rules.entries()) {
      const best = Math.min(...rule.map((alternative) => lengthOf(alternative, fewest)));
      if (best >= (fewest[id] ?? 0)) continue;
      fewest[id] = best;
      changed = true;
    }
  }
  return fewest;
}

/** Returns a plain character in most cases, and an unusual one sometimes. */
function sampleCharacter(
  element: Extract<GbnfElement, { kind: "class" }>,
  random: RandomNumbers,
): string {
  if (element.negated) throw new Error("the compiler writes no negated classes");
  const usual = element.ranges.filter(([from]) => from < 0x7f);
  const ranges = usual.length > 0 && random() < 0.9 ? usual : element.ranges;
  const [from, to] = ranges[Math.floor(random() * ranges.length)] ?? [0x61, 0x61];
  const top = ranges === usual ? Math.min(to, 0x7e) : to;
  return String.fromCodePoint(from + Math.floor(random() * (Math.max(from, top) - from + 1)));
}
