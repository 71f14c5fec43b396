import type { Expression, RuleSink } from "../expression.ts";
import {
  type Automaton,
  accepts,
  combineAutomata,
  createUniversalAutomaton,
  isEmptyAutomaton,
} from "./automaton.ts";
import { Budget } from "./budget.ts";
import { compileJsonString } from "./compile-json-string.ts";
import { type FormatBreadth, getFormatAutomaton } from "./format-automaton.ts";
import { type LengthRange, restrictLength } from "./length-automaton.ts";
import { buildLiteralAutomaton } from "./literal-automaton.ts";
import { minimise } from "./minimise.ts";
import { getPatternAutomaton } from "./pattern-automaton.ts";

/**
 * A set of texts as a minimal automaton over code points. It can be queried, combined and compiled to a grammar.
 * Methods that create a language throw UnsupportedConstructError and TooLargeError; each call of such a method has its
 * own budget of work.
 */
export class TextLanguage {
  readonly automaton: Automaton;

  private constructor(automaton: Automaton) {
    this.automaton = automaton;
  }

  static universal(): TextLanguage {
    return new TextLanguage(createUniversalAutomaton());
  }

  /** Returns the texts in which an ECMA-262 pattern matches somewhere. */
  static fromPattern(source: string): TextLanguage {
    return new TextLanguage(getPatternAutomaton(source, new Budget()));
  }

  /**
   * Returns the texts of a JSON Schema format: with `breadth` `produced`, the texts that Berth generates; with
   * `accepted`, all texts that Ajv accepts.
   */
  static fromFormat(name: string, breadth: FormatBreadth): TextLanguage {
    return new TextLanguage(getFormatAutomaton(name, breadth));
  }

  /**
   * Returns the language of exactly these texts, without texts that have a lone surrogate, which JSON cannot contain.
   */
  static fromTexts(texts: readonly string[]): TextLanguage {
    return new TextLanguage(buildLiteralAutomaton(texts, new Budget()));
  }

  intersect(other: TextLanguage): TextLanguage {
    return this.combineWith(other, "and");
  }

  union(other: TextLanguage): TextLanguage {
    return this.combineWith(other, "or");
  }

  subtract(other: TextLanguage): TextLanguage {
    return this.combineWith(other, "minus");
  }

  complement(): TextLanguage {
    return TextLanguage.universal().subtract(this);
  }

  /**
   * Returns the texts with these lengths. If a large maximum would need too many states, uses a smaller one,
   * which never makes the result empty.
   */
  restrictLength(range: LengthRange): TextLanguage {
    return new TextLanguage(restrictLength(this.automaton, range, new Budget()));
  }

  isEmpty(): boolean {
    return isEmptyAutomaton(this.automaton);
  }

  accepts(text: string): boolean {
    return accepts(this.automaton, text);
  }

  /**
   * Compiles this language to a grammar of JSON strings with quotes, in which each text has exactly one spelling. The
   * language must not be empty.
   */
  compileJsonString(sink: RuleSink): Expression {
    return compileJsonString(this.automaton, sink);
  }

  private combineWith(other: TextLanguage, mode: "and" | "or" | "minus"): TextLanguage {
    const result = combineAutomata(this.automaton, other.automaton, mode, new Budget());
    return new TextLanguage(minimise(result));
  }
}
