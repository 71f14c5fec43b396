import type { Expression, RuleSink } from "../expression.ts";
import type { StringConstraints } from "../scalars.ts";
import type { CodePoints } from "./code-points.ts";
import type { FormatBreadth } from "./formats.ts";
import { termsOf } from "./json-string-expression.ts";
import { jsonCharacter } from "./json-text.ts";
import { Recent } from "./recent.ts";
import { refusingAt } from "./refusing-at.ts";
import { TextLanguage } from "./text-language.ts";

/** Longer strings are not produced: no context is as long. */
const LENGTH_MAX = 1_000_000;

/** A JSON string, quotes included, that meets all constraints; undefined where none does. */
export function stringExpression(
  constraints: StringConstraints,
  sink: RuleSink,
): Expression | undefined {
  const { minLength = 0, maxLength } = constraints;
  if (minLength > (maxLength ?? minLength)) return undefined;
  return refusingAt(constraints, () => {
    const anyLength = languageOf(constraints, "produced");
    const characters = onlyCharacters(anyLength);
    if (characters !== undefined && minLength <= LENGTH_MAX) {
      const terms = termsOf(sink);
      const quote = terms.literal('"');
      const max = maxLength === undefined ? undefined : Math.min(maxLength, LENGTH_MAX);
      const content = terms.repeat(jsonCharacter(characters, terms), minLength, max);
      return terms.sequence([quote, content, quote]).expression;
    }
    const language = anyLength.withLength({ min: minLength, max: maxLength });
    return language.isEmpty() ? undefined : language.toStringExpression(sink);
  });
}

/** Whether a text meets all constraints. Formats are read as widely as Ajv reads them. */
export function allowsString(constraints: StringConstraints, text: string): boolean {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = constraints;
  const length = Array.from(text).length;
  if (length < minLength || length > maxLength) return false;
  return refusingAt(constraints, () => languageOf(constraints, "accepted").accepts(text));
}

/** True only where certainly no string meets the constraints. */
export function noString(constraints: StringConstraints): boolean {
  const { minLength = 0, maxLength } = constraints;
  if (minLength > (maxLength ?? minLength)) return true;
  return refusingAt(constraints, () =>
    languageOf(constraints, "accepted").withLength({ min: minLength, max: maxLength }).isEmpty(),
  );
}

/** What all constraints but those of length allow. */
function languageOf(constraints: StringConstraints, breadth: FormatBreadth): TextLanguage {
  const { patterns, forbiddenPatterns, formats, excluded } = constraints;
  const sources = [patterns, forbiddenPatterns, formats].map((all) => all.map((one) => one.source));
  const name = JSON.stringify([breadth, ...sources, excluded]);
  return recent.get(name, () => makeLanguage(constraints, breadth));
}

const recent = new Recent<TextLanguage>(100);

function makeLanguage(constraints: StringConstraints, breadth: FormatBreadth): TextLanguage {
  let language = TextLanguage.every();
  for (const format of constraints.formats) {
    const one = refusingAt(format, () => TextLanguage.ofFormat(format.source, breadth));
    language = language.intersect(one);
  }
  for (const pattern of constraints.patterns) {
    const one = refusingAt(pattern, () => TextLanguage.ofPattern(pattern.source));
    language = language.intersect(one);
  }
  for (const pattern of constraints.forbiddenPatterns) {
    const one = refusingAt(pattern, () => TextLanguage.ofPattern(pattern.source));
    language = language.minus(one);
  }
  if (constraints.excluded.length === 0) return language;
  return language.minus(TextLanguage.anyOf(constraints.excluded));
}

/** The set of characters, where the language is all texts of these. */
function onlyCharacters({ automaton }: TextLanguage): CodePoints | undefined {
  if (automaton.size !== 1 || automaton.accepting[0] !== 1) return undefined;
  const symbol = automaton.next.indexOf(0);
  return symbol < 0 ? undefined : automaton.alphabet[symbol];
}
