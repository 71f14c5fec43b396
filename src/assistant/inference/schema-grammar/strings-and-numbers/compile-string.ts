import { LRUCache } from "lru-cache";
import type { Expression, RuleSink } from "../expression.ts";
import type { StringConstraints } from "../scalar-constraints.ts";
import type { CodePoints } from "./code-points.ts";
import { getExpressionBuilder } from "./compile-json-string.ts";
import type { FormatBreadth } from "./format-automaton.ts";
import { compileJsonCharacter } from "./json-character.ts";
import { refuseOnError } from "./refuse-on-error.ts";
import { TextLanguage } from "./text-language.ts";

/** The maximum length of generated strings. Longer strings would not fit into the context of any model. */
const LENGTH_MAX = 1_000_000;

/**
 * Compiles constraints to a grammar of JSON strings with their quotes; undefined if no string meets the constraints.
 */
export function compileString(
  constraints: StringConstraints,
  sink: RuleSink,
): Expression | undefined {
  const { minLength = 0, maxLength } = constraints;
  if (minLength > (maxLength ?? minLength)) return undefined;
  return refuseOnError(constraints, () => {
    const anyLength = getLanguage(constraints, "produced");
    const characters = findCharacterSet(anyLength);
    if (characters !== undefined && minLength <= LENGTH_MAX) {
      const builder = getExpressionBuilder(sink);
      const quote = builder.literal('"');
      const max = maxLength === undefined ? undefined : Math.min(maxLength, LENGTH_MAX);
      const content = builder.repeat(compileJsonCharacter(characters, builder), minLength, max);
      return builder.sequence([quote, content, quote]).expression;
    }
    const language = anyLength.restrictLength({ min: minLength, max: maxLength });
    return language.isEmpty() ? undefined : language.compileJsonString(sink);
  });
}

/** Returns true if a text meets all constraints. For a format, every text that Ajv accepts meets the constraint. */
export function allowsString(constraints: StringConstraints, text: string): boolean {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = constraints;
  const length = Array.from(text).length;
  if (length < minLength || length > maxLength) return false;
  return refuseOnError(constraints, () => getLanguage(constraints, "accepted").accepts(text));
}

/** Returns true only if certainly no string meets the constraints. */
export function matchesNoString(constraints: StringConstraints): boolean {
  const { minLength = 0, maxLength } = constraints;
  if (minLength > (maxLength ?? minLength)) return true;
  return refuseOnError(constraints, () =>
    getLanguage(constraints, "accepted")
      .restrictLength({ min: minLength, max: maxLength })
      .isEmpty(),
  );
}

/** Returns the set of strings that meet all `constraints` except `minLength` and `maxLength`. */
function getLanguage(constraints: StringConstraints, breadth: FormatBreadth): TextLanguage {
  const { patterns, forbiddenPatterns, formats, excluded } = constraints;
  const sources = [patterns, forbiddenPatterns, formats].map((all) => all.map((one) => one.source));
  const name = JSON.stringify([breadth, ...sources, excluded]);
  const cached = languageCache.get(name);
  if (cached) return cached;
  const language = buildLanguage(constraints, breadth);
  languageCache.set(name, language);
  return language;
}

const languageCache = new LRUCache<string, TextLanguage>({ max: 100 });

function buildLanguage(constraints: StringConstraints, breadth: FormatBreadth): TextLanguage {
  let language = TextLanguage.universal();
  for (const format of constraints.formats) {
    const one = refuseOnError(format, () => TextLanguage.fromFormat(format.source, breadth));
    language = language.intersect(one);
  }
  for (const pattern of constraints.patterns) {
    const one = refuseOnError(pattern, () => TextLanguage.fromPattern(pattern.source));
    language = language.intersect(one);
  }
  for (const pattern of constraints.forbiddenPatterns) {
    const one = refuseOnError(pattern, () => TextLanguage.fromPattern(pattern.source));
    language = language.subtract(one);
  }
  if (constraints.excluded.length === 0) return language;
  return language.subtract(TextLanguage.fromTexts(constraints.excluded));
}

/** Returns the set of characters if the language consists of all texts over one set; otherwise undefined. */
function findCharacterSet({ automaton }: TextLanguage): CodePoints | undefined {
  if (automaton.size !== 1 || automaton.accepting[0] !== 1) return undefined;
  const symbol = automaton.next.indexOf(0);
  return symbol < 0 ? undefined : automaton.alphabet[symbol];
}
