import { choice, literal, sequence } from "./combinators.ts";
import type { Expression } from "./expression.ts";
import { intersectStrings } from "./intersect.ts";
import type { LanguageContext } from "./language-context.ts";
import { isImplicitlyClosed, listDeclaredNames } from "./member-schemas.ts";
import type { ObjectAlternative, SchemaConjunction } from "./normal-form.ts";
import { anyString, conjoin, unconstrained } from "./normal-form.ts";
import type { StringConstraints, StringPattern } from "./scalar-constraints.ts";
import { refuseKeyword } from "./schema-refusal.ts";

/**
 * The maximum number of patterns of one object. Each set of patterns that one name can match is a separate case, so the
 * number of cases may double with each pattern.
 */
const PATTERNS_MAX = 8;

export interface AdditionalMembers {
  /** The grammar of one additional member; undefined if the object allows none. */
  readonly expression: Expression | undefined;
  /** Names that `propertyNames` lists. They are treated like declared names. */
  readonly names: readonly string[];
}

/**
 * Compiles the undeclared members: those with a schema in patternProperties or additionalProperties, and those without
 * a schema.
 */
export function compileAdditionalMembers(
  language: LanguageContext,
  alternative: ObjectAlternative,
  hint: string,
): AdditionalMembers {
  const patterns = collectPatterns(alternative);
  if (patterns.length > PATTERNS_MAX) {
    refuseKeyword(
      "patternProperties",
      alternative.pointer,
      `has more than ${PATTERNS_MAX} patterns at once`,
    );
  }
  const closed = isImplicitlyClosed(alternative);
  const options: (Expression | undefined)[] = [];
  const names: string[] = [];
  const allowedNames = language.normalizer.normalize(alternative.names);
  for (const allowed of allowedNames) {
    if (allowed.kind !== "values") continue;
    names.push(...filterAllowedNames(language, alternative, patterns, closed, allowed.values));
  }
  for (const allowed of allowedNames) {
    if (allowed.kind !== "string") continue;
    const base = intersectStrings(allowed.constraints, {
      ...anyString,
      excluded: [
        ...new Set([...listDeclaredNames(alternative), ...alternative.forbidden, ...names]),
      ],
    });
    for (const matched of findMatchablePatternSets(language, base, patterns, [])) {
      const schemas = getAdditionalSchemas(alternative, matched, closed);
      if (!schemas || isKnownUnsatisfiable(language, schemas)) continue;
      const unmatched = patterns.filter((pattern) => !matched.includes(pattern));
      const name = language.normalizer.scalars.compileString(
        intersectStrings(base, { ...anyString, patterns: matched, forbiddenPatterns: unmatched }),
        language.table,
      );
      if (!name) continue;
      const value = language.valueRule(schemas, `${hint}-value`);
      options.push(sequence(name, literal(":"), language.blank, value));
    }
  }
  return { expression: choice(options), names };
}

/** Returns those strings in `values` that the object schema allows as names of additional members. */
function filterAllowedNames(
  language: LanguageContext,
  alternative: ObjectAlternative,
  patterns: readonly StringPattern[],
  closed: boolean,
  values: readonly unknown[],
): readonly string[] {
  const { scalars } = language.normalizer;
  return values
    .filter((value) => typeof value === "string")
    .filter((name) => {
      const matched = patterns.filter((pattern) =>
        scalars.allowsString({ ...anyString, patterns: [pattern] }, name),
      );
      return getAdditionalSchemas(alternative, matched, closed) !== undefined;
    });
}

function collectPatterns(alternative: ObjectAlternative): readonly StringPattern[] {
  const bySource = new Map<string, StringPattern>();
  for (const facet of alternative.facets) {
    for (const { pattern } of facet.patterns) bySource.set(pattern.source, pattern);
  }
  return [...bySource.values()];
}

/** Yields the sets of patterns that one name can match; skips sets that match no name. */
function* findMatchablePatternSets(
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
  if (
    !language.normalizer.scalars.matchesNoString(
      intersectStrings(base, { ...anyString, patterns: more }),
    )
  ) {
    yield* findMatchablePatternSets(language, base, others, more);
  }
  yield* findMatchablePatternSets(language, base, others, matched);
}

/**
 * Returns the schemas for the value of an additional member whose name matches these patterns; undefined if the object
 * does not allow such a member.
 */
function getAdditionalSchemas(
  alternative: ObjectAlternative,
  matched: readonly StringPattern[],
  closed: boolean,
): SchemaConjunction | undefined {
  if (matched.length === 0 && closed) return undefined;
  const sources = new Set(matched.map((pattern) => pattern.source));
  let schemas = unconstrained;
  for (const facet of alternative.facets) {
    const own = facet.patterns.filter(({ pattern }) => sources.has(pattern.source));
    for (const { schemas: more } of own) schemas = conjoin(schemas, more);
    if (own.length === 0 && facet.additional) schemas = conjoin(schemas, facet.additional);
  }
  return schemas;
}

/**
 * Returns true if the normal form of `schemas` has no alternative, so that no value satisfies them. The caller then
 * omits the additional member. `pruneRules` later removes the rules of members that are impossible for another reason.
 */
function isKnownUnsatisfiable(language: LanguageContext, schemas: SchemaConjunction): boolean {
  return schemas.length > 0 && language.normalizer.normalize(schemas).length === 0;
}
