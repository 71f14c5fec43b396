import { choice, literal, sequence } from "./combinators.ts";
import type { Expression } from "./expression.ts";
import { bothStrings } from "./intersect.ts";
import type { LanguageContext } from "./language-context.ts";
import { declaredNames, isClosedByRule } from "./members.ts";
import type { ObjectPart, Schemas } from "./part.ts";
import { anyString, anything, bothHold } from "./part.ts";
import { refuse } from "./refusal.ts";
import type { StringConstraints, StringPattern } from "./scalars.ts";

/** Patterns of one object; names are told apart by which of them they match. */
const PATTERNS_MAX = 8;

export interface ExtraMembers {
  /** A member whose name is not declared; undefined where there is none. */
  readonly expression: Expression | undefined;
  /** Names that `propertyNames` lists, which are then as good as declared. */
  readonly names: readonly string[];
}

/** Members beyond the declared ones: of patternProperties, additionalProperties, or of no schema at all. */
export function extraMembers(
  language: LanguageContext,
  part: ObjectPart,
  hint: string,
): ExtraMembers {
  const patterns = patternsOf(part);
  if (patterns.length > PATTERNS_MAX) {
    refuse("patternProperties", part.pointer, `has more than ${PATTERNS_MAX} patterns at once`);
  }
  const closed = isClosedByRule(part);
  const options: (Expression | undefined)[] = [];
  const names: string[] = [];
  const allowedNames = language.shapes.of(part.names);
  for (const allowed of allowedNames) {
    if (allowed.kind !== "values") continue;
    names.push(...listedNames(language, part, patterns, closed, allowed.values));
  }
  for (const allowed of allowedNames) {
    if (allowed.kind !== "string") continue;
    const base = bothStrings(allowed.constraints, {
      ...anyString,
      excluded: [...new Set([...declaredNames(part), ...part.forbidden, ...names])],
    });
    for (const matched of kindsOfNames(language, base, patterns, [])) {
      const schemas = extraSchemas(part, matched, closed);
      if (!schemas || cannotBe(language, schemas)) continue;
      const unmatched = patterns.filter((pattern) => !matched.includes(pattern));
      const name = language.shapes.scalars.string(
        bothStrings(base, { ...anyString, patterns: matched, forbiddenPatterns: unmatched }),
        language.table,
      );
      if (!name) continue;
      const value = language.value(schemas, `${hint}-value`);
      options.push(sequence(name, literal(":"), language.blank, value));
    }
  }
  return { expression: choice(options), names };
}

/** Listed names that the object has a place for. */
function listedNames(
  language: LanguageContext,
  part: ObjectPart,
  patterns: readonly StringPattern[],
  closed: boolean,
  values: readonly unknown[],
): readonly string[] {
  const { scalars } = language.shapes;
  return values
    .filter((value) => typeof value === "string")
    .filter((name) => {
      const matched = patterns.filter((pattern) =>
        scalars.allowsString({ ...anyString, patterns: [pattern] }, name),
      );
      return extraSchemas(part, matched, closed) !== undefined;
    });
}

function patternsOf(part: ObjectPart): readonly StringPattern[] {
  const bySource = new Map<string, StringPattern>();
  for (const facet of part.facets) {
    for (const { pattern } of facet.patterns) bySource.set(pattern.source, pattern);
  }
  return [...bySource.values()];
}

/** The sets of patterns that a name may match at once; those that no name matches are left out early. */
function* kindsOfNames(
  language: LanguageContext,
  base: StringConstraints,
  patterns: readonly StringPattern[],
  matched: readonly StringPattern[],
): Generator<readonly StringPattern[]> {
  const [first, ...others] = patterns;
  if (!first) {
    yield matched;
    return;
  }
  const more = [...matched, first];
  if (!language.shapes.scalars.noString(bothStrings(base, { ...anyString, patterns: more }))) {
    yield* kindsOfNames(language, base, others, more);
  }
  yield* kindsOfNames(language, base, others, matched);
}

/** What the value of such a member has to meet; undefined where the object has no place for it. */
function extraSchemas(
  part: ObjectPart,
  matched: readonly StringPattern[],
  closed: boolean,
): Schemas | undefined {
  if (matched.length === 0 && closed) return undefined;
  const sources = new Set(matched.map((pattern) => pattern.source));
  let schemas = anything;
  for (const facet of part.facets) {
    const own = facet.patterns.filter(({ pattern }) => sources.has(pattern.source));
    for (const { schemas: more } of own) schemas = bothHold(schemas, more);
    if (own.length === 0 && facet.additional) schemas = bothHold(schemas, facet.additional);
  }
  return schemas;
}

/** Looked at once more at the end of the compilation; here it only saves making the names. */
function cannotBe(language: LanguageContext, schemas: Schemas): boolean {
  return schemas.length > 0 && language.shapes.of(schemas).length === 0;
}
