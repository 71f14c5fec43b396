import type { Expression, RuleSink } from "../expression.ts";
import { type Automaton, accepts, combine, everyText, isEmpty } from "./automaton.ts";
import { Budget } from "./budget.ts";
import { automatonOfFormat, type FormatBreadth } from "./formats.ts";
import { jsonStringExpression } from "./json-string-expression.ts";
import { type LengthRange, withLength } from "./length.ts";
import { minimise } from "./minimise.ts";
import { automatonOfPattern } from "./pattern-language.ts";
import { automatonOfTexts } from "./texts.ts";

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

  static every(): TextLanguage {
    return new TextLanguage(everyText());
  }

  /** The texts in which an ECMA-262 pattern is found somewhere. */
  static ofPattern(source: string): TextLanguage {
    return new TextLanguage(automatonOfPattern(source, new Budget()));
  }

  /** Texts of one of JSON Schema's formats: those that are produced, or about those that are valid. */
  static ofFormat(name: string, breadth: FormatBreadth): TextLanguage {
    return new TextLanguage(automatonOfFormat(name, breadth));
  }

  /** Exactly these; one that holds a lone surrogate is left out, since no JSON text can hold it. */
  static anyOf(texts: readonly string[]): TextLanguage {
    return new TextLanguage(automatonOfTexts(texts, new Budget()));
  }

  intersect(other: TextLanguage): TextLanguage {
    return this.combined(other, "and");
  }

  union(other: TextLanguage): TextLanguage {
    return this.combined(other, "or");
  }

  minus(other: TextLanguage): TextLanguage {
    return this.combined(other, "minus");
  }

  complement(): TextLanguage {
    return TextLanguage.every().minus(this);
  }

  /**
   * Those of so many code points. Where a large maximum would take too many states, only those up to a
   * smaller one; whether there are any at all is not changed by that.
   */
  withLength(range: LengthRange): TextLanguage {
    return new TextLanguage(withLength(this.automaton, range, new Budget()));
  }

  isEmpty(): boolean {
    return isEmpty(this.automaton);
  }

  accepts(text: string): boolean {
    return accepts(this.automaton, text);
  }

  /** JSON strings, quotes included, that decode to these texts, one spelling for each. Not for none. */
  toStringExpression(sink: RuleSink): Expression {
    return jsonStringExpression(this.automaton, sink);
  }

  private combined(other: TextLanguage, mode: "and" | "or" | "minus"): TextLanguage {
    const result = combine(this.automaton, other.automaton, mode, new Budget());
    return new TextLanguage(minimise(result));
  }
}
