/**
 * The result of parsing GBNF as llama.cpp does: the same characters and escapes, the same expansion of repetitions,
 * and the same refusals. A grammar is a set of rules with alternatives of elements.
 */
export interface GbnfGrammar {
  readonly rules: readonly GbnfRule[];
  readonly root: number;
}

/** The alternatives of a rule; an alternative without elements matches the empty text. */
export type GbnfRule = readonly (readonly GbnfElement[])[];

export type GbnfElement =
  | { readonly kind: "rule"; readonly rule: number }
  | {
      readonly kind: "class";
      readonly negated: boolean;
      readonly ranges: readonly (readonly [number, number])[];
    };

const REPETITION_MAX = 2_000;

export function parseGbnf(text: string): GbnfGrammar {
  return new GbnfParser(text).grammar();
}

class GbnfParser {
  readonly #text: string;
  #at = 0;
  readonly #ids = new Map<string, number>();
  readonly #rules: GbnfElement[][][] = [];

  constructor(text: string) {
    this.#text = text;
  }

  grammar(): GbnfGrammar {
    this.#space(true);
    while (this.#at < this.#text.length) this.#rule();
    const root = this.#ids.get("root");
    if (root === undefined) throw new Error("the grammar has no rule «root»");
    for (const [name, id] of this.#ids) {
      if (!this.#rules[id]) throw new Error(`the rule «${name}» is not defined`);
    }
    const grammar = { rules: this.#rules, root };
    assertNoLeftRecursion(grammar);
    return grammar;
  }

  #rule(): void {
    const name = this.#match(/[a-zA-Z0-9-]+/y, "a name");
    const id = this.#id(name);
    if (this.#rules[id]) throw new Error(`the rule «${name}» is defined twice`);
    this.#space(false);
    this.#match(/::=/y, "::=");
    this.#space(true);
    this.#alternatives(id, name, false);
    if (this.#at < this.#text.length) this.#match(/\r\n|\r|\n/y, "the end of the line");
    this.#space(true);
  }

  #alternatives(id: number, name: string, nested: boolean): void {
    const alternatives = [this.#sequence(name, nested)];
    while (this.#text[this.#at] === "|") {
      this.#at += 1;
      this.#space(true);
      alternatives.push(this.#sequence(name, nested));
    }
    this.#rules[id] = alternatives;
  }

  #sequence(name: string, nested: boolean): GbnfElement[] {
    const elements: GbnfElement[] = [];
    let last = 0;
    /**
     * The number of rules that llama.cpp counts for the element that was parsed last. A repetition multiplies this
     * number, and llama.cpp limits the product.
     */
    let inside = 1;
    for (;;) {
      const next = this.#text[this.#at];
      if (next === '"') {
        last = elements.length;
        inside = 1;
        this.#at += 1;
        while (this.#text[this.#at] !== '"') {
          const character = this.#character();
          elements.push({ kind: "class", negated: false, ranges: [[character, character]] });
        }
        this.#at += 1;
        this.#space(nested);
      } else if (next === "[") {
        last = elements.length;
        inside = 1;
        elements.push(this.#class());
        this.#space(nested);
      } else if (next !== undefined && /[a-zA-Z0-9-]/.test(next)) {
        last = elements.length;
        inside = 1;
        elements.push({ kind: "rule", rule: this.#id(this.#match(/[a-zA-Z0-9-]+/y, "a name")) });
        this.#space(nested);
      } else if (next === "(") {
        this.#at += 1;
        this.#space(true);
        const before = this.#ids.size;
        const id = this.#generated(name);
        this.#alternatives(id, name, true);
        inside = Math.max(1, this.#ids.size - before);
        last = elements.length;
        elements.push({ kind: "rule", rule: id });
        this.#match(/\)/y, ")");
        this.#space(nested);
      } else if (next !== undefined && "*+?{".includes(next)) {
        const [min, max] = this.#times(nested);
        if (last === elements.length) throw new Error(`nothing to repeat at ${this.#at}`);
        const total = max !== undefined && max > 0 ? max : min > 0 ? min : 1;
        if (inside * total > REPETITION_MAX) throw new Error("repetitions exceed sane defaults");
        this.#repeat(elements, last, name, min, max);
        inside *= total;
      } else return elements;
    }
  }

  #repeat(
    elements: GbnfElement[],
    last: number,
    name: string,
    min: number,
    max: number | undefined,
  ): void {
    const item = elements.slice(last);
    if (min === 0) elements.length = last;
    for (let copy = 1; copy < min; copy += 1) elements.push(...item);
    let rest: number | undefined;
    for (let copy = 0; copy < (max === undefined ? 1 : max - min); copy += 1) {
      const id = this.#generated(name);
      const again = max === undefined ? id : rest;
      this.#rules[id] = [
        [...item, ...(again === undefined ? [] : [{ kind: "rule" as const, rule: again }])],
        [],
      ];
      rest = id;
    }
    if (rest !== undefined) elements.push({ kind: "rule", rule: rest });
  }

  #times(nested: boolean): readonly [number, number | undefined] {
    const sign = this.#match(/\*|\+|\?|\{[ \t]*(\d+)[ \t]*(,[ \t]*(\d+)?[ \t]*)?\}/y, "a count");
    this.#space(nested);
    if (sign === "*") return [0, undefined];
    if (sign === "+") return [1, undefined];
    if (sign === "?") return [0, 1];
    const [min = 0, max] = sign.match(/\d+/g)?.map(Number) ?? [];
    if (min > REPETITION_MAX) throw new Error("the number of repetitions exceeds sane defaults");
    if (!sign.includes(",")) return [min, min];
    // llama.cpp treats a maximum above REPETITION_MAX as unlimited, and would accept more than the grammar intends. So
    // such a grammar is an error.
    if (max !== undefined && max > REPETITION_MAX) throw new Error("the maximum would be dropped");
    return [min, max];
  }

  #class(): GbnfElement {
    this.#at += 1;
    const negated = this.#text[this.#at] === "^";
    if (negated) this.#at += 1;
    const ranges: [number, number][] = [];
    while (this.#text[this.#at] !== "]") {
      const from = this.#character();
      let to = from;
      if (this.#text[this.#at] === "-" && this.#text[this.#at + 1] !== "]") {
        this.#at += 1;
        to = this.#character();
      }
      ranges.push([from, to]);
    }
    this.#at += 1;
    // llama.cpp would accept the empty text for an empty class, so the compiler must not generate one.
    if (ranges.length === 0) throw new Error("an empty class");
    return { kind: "class", negated, ranges };
  }

  #character(): number {
    if (this.#at >= this.#text.length) throw new Error("the text ends too early");
    const escape = this.#tryMatch(
      /\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\"[\]-])/y,
    );
    if (escape === undefined) {
      if (this.#text[this.#at] === "\\") throw new Error(`an unknown escape at ${this.#at}`);
      const codePoint = this.#text.codePointAt(this.#at) ?? 0;
      this.#at += codePoint > 0xffff ? 2 : 1;
      return codePoint;
    }
    const kind = escape[1] ?? "";
    if ("xuU".includes(kind)) return Number.parseInt(escape.slice(2), 16);
    return ({ t: "\t", r: "\r", n: "\n" }[kind] ?? kind).codePointAt(0) ?? 0;
  }

  #space(newlines: boolean): void {
    this.#tryMatch(newlines ? /(?:[ \t\r\n]|#[^\r\n]*)*/y : /(?:[ \t]|#[^\r\n]*)*/y);
  }

  #match(pattern: RegExp, wanted: string): string {
    const found = this.#tryMatch(pattern);
    if (found === undefined) {
      const near = this.#text.slice(this.#at, this.#at + 20);
      throw new Error(`${wanted} was expected at ${this.#at}: ${JSON.stringify(near)}`);
    }
    return found;
  }

  #tryMatch(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #id(name: string): number {
    const known = this.#ids.get(name) ?? this.#ids.size;
    this.#ids.set(name, known);
    return known;
  }

  #generated(name: string): number {
    return this.#id(`${name}_${this.#ids.size}`);
  }
}

/** Throws for left recursion, which llama.cpp refuses in some cases and which makes it hang in others. */
function assertNoLeftRecursion(grammar: GbnfGrammar): void {
  const nullable = new Set<number>();
  const isNullable = (element: GbnfElement) =>
    element.kind === "rule" && nullable.has(element.rule);
  for (let grown = true; grown; ) {
    grown = false;
    for (const [id, rule] of grammar.rules.entries()) {
      if (nullable.has(id) || !rule.some((alternative) => alternative.every(isNullable))) continue;
      nullable.add(id);
      grown = true;
    }
  }
  const state = new Map<number, "open" | "done">();
  const visit = (id: number): void => {
    if (state.get(id) === "done") return;
    if (state.get(id) === "open") throw new Error("the grammar is left-recursive");
    state.set(id, "open");
    for (const alternative of grammar.rules[id] ?? []) {
      for (const element of alternative) {
        if (element.kind === "rule") visit(element.rule);
        if (!isNullable(element)) break;
      }
    }
    state.set(id, "done");
  };
  for (const id of grammar.rules.keys()) visit(id);
}
