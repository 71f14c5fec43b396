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
 * A set of texts that can be asked, combined and written as a grammar: a minimal automaton over code
 * points. Whatever makes one throws UnsupportedTextError for what cannot be enforced and TooLargeError
 * where an automaton outgrows its bound; each call has a budget of its own.
 */
export class TextLanguage {
  readonly automaton: Automaton;

  private constructor(automaton: Automaton) {
    this.automaton = automaton;
  }

  static universal(): TextLanguage {
    return new TextLanguage(createUniversalAutomaton());
  }

  /** The texts in which an ECMA-262 pattern is found somewhere. */
  static fromPattern(source: string): TextLanguage {
    return new TextLanguage(getPatternAutomaton(source, new Budget()));
  }

  /** Texts of one of JSON Schema's formats: those that are produced, or about those that are valid. */
  static fromFormat(name: string, breadth: FormatBreadth): TextLanguage {
    return new TextLanguage(getFormatAutomaton(name, breadth));
  }

  /** Exactly these; one that holds a lone surrogate is left out, since no JSON text can hold it. */
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
   * Those of so many code points. Where a large maximum would take too many states, only those up to a
   * smaller one; whether there are any at all is not changed by that.
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

  /** JSON strings, quotes included, that decode to these texts, one spelling for each. Not for none. */
  compileJsonString(sink: RuleSink): Expression {
    return compileJsonString(this.automaton, sink);
  }

  private combineWith(other: TextLanguage, mode: "and" | "or" | "minus"): TextLanguage {
    const result = combineAutomata(this.automaton, other.automaton, mode, new Budget());
    return new TextLanguage(minimise(result));
  }
}
