import type { GbnfElement, GbnfGrammar } from "./gbnf-grammar.ts";

/** A parse stack as a linked list: its top is element `index` of `alternative`, and `next` is the rest of the stack. */
interface Frame {
  readonly id: number;
  readonly alternative: readonly GbnfElement[];
  readonly index: number;
  readonly next: Frame | undefined;
}

/**
 * Parses a text with all possible stacks of a grammar, as llama.cpp does during sampling. Equal stacks share one
 * object, so that stacks can be compared and counted.
 */
export class GbnfAcceptor {
  readonly #grammar: GbnfGrammar;
  readonly #frames = new Map<string, Frame>();
  readonly #alternatives = new Map<readonly GbnfElement[], number>();
  readonly #closures = new Map<Frame | undefined, ReadonlySet<Frame | undefined>>();
  /** The highest number of parse stacks at any position of the texts that this acceptor has checked. */
  stacksMax = 0;

  constructor(grammar: GbnfGrammar) {
    this.#grammar = grammar;
  }

  accepts(text: string): boolean {
    let stacks = this.#start();
    for (const character of text) {
      stacks = this.#step(stacks, character.codePointAt(0) ?? 0);
      if (stacks.size === 0) return false;
    }
    return stacks.has(undefined);
  }

  #start(): ReadonlySet<Frame | undefined> {
    const found = new Set<Frame | undefined>();
    for (const alternative of this.#grammar.rules[this.#grammar.root] ?? []) {
      for (const frame of this.#closure(this.#frame(alternative, 0, undefined))) found.add(frame);
    }
    return found;
  }

  #step(stacks: ReadonlySet<Frame | undefined>, character: number): Set<Frame | undefined> {
    const found = new Set<Frame | undefined>();
    for (const stack of stacks) {
      const element = stack?.alternative[stack.index];
      if (!stack || element?.kind !== "class" || !matches(element, character)) continue;
      const after = this.#frame(stack.alternative, stack.index + 1, stack.next);
      for (const frame of this.#closure(after)) found.add(frame);
    }
    this.stacksMax = Math.max(this.stacksMax, found.size);
    return found;
  }

  /**
   * Returns the parse stack that expects the element at `index` of the alternative. If the alternative has no more
   * elements, returns `next`, the rest of the stack. An empty stack is undefined, and means that the text may end.
   */
  #frame(
    alternative: readonly GbnfElement[],
    index: number,
    next: Frame | undefined,
  ): Frame | undefined {
    if (index >= alternative.length) return next;
    const number = this.#alternatives.get(alternative) ?? this.#alternatives.size;
    this.#alternatives.set(alternative, number);
    const key = `${number} ${index} ${next?.id ?? ""}`;
    const frame = this.#frames.get(key) ?? { id: this.#frames.size, alternative, index, next };
    this.#frames.set(key, frame);
    return frame;
  }

  /** Expands rules until each stack begins with an element that matches a character. */
  #closure(start: Frame | undefined): ReadonlySet<Frame | undefined> {
    const known = this.#closures.get(start);
    if (known) return known;
    const found = new Set<Frame | undefined>();
    const seen = new Set<Frame | undefined>();
    const todo = [start];
    while (todo.length > 0) {
      const frame = todo.pop();
      if (seen.has(frame)) continue;
      seen.add(frame);
      const element = frame?.alternative[frame.index];
      if (!frame || element?.kind !== "rule") {
        found.add(frame);
        continue;
      }
      const after = this.#frame(frame.alternative, frame.index + 1, frame.next);
      for (const alternative of this.#grammar.rules[element.rule] ?? []) {
        todo.push(this.#frame(alternative, 0, after));
      }
    }
    this.#closures.set(start, found);
    return found;
  }
}

function matches(element: Extract<GbnfElement, { kind: "class" }>, character: number): boolean {
  const found = element.ranges.some(([from, to]) => from <= character && character <= to);
  return found !== element.negated;
}
