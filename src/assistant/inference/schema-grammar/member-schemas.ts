import type {
  ArrayAlternative,
  ArrayFacet,
  ObjectAlternative,
  SchemaConjunction,
} from "./normal-form.ts";
import { anyString, conjoin, unconstrained } from "./normal-form.ts";
import type { ScalarGrammar } from "./scalar-constraints.ts";

/** Returns the schemas for the property `name` of all schema objects that were merged. */
export function getPropertySchemas(
  alternative: ObjectAlternative,
  name: string,
  scalars: ScalarGrammar,
): SchemaConjunction {
  let schemas = unconstrained;
  for (const facet of alternative.facets) {
    let mentioned = false;
    const property = facet.properties.get(name);
    if (property) {
      schemas = conjoin(schemas, property);
      mentioned = true;
    }
    for (const { pattern, schemas: more } of facet.patterns) {
      if (!scalars.allowsString({ ...anyString, patterns: [pattern] }, name)) continue;
      schemas = conjoin(schemas, more);
      mentioned = true;
    }
    if (!mentioned && facet.additional) schemas = conjoin(schemas, facet.additional);
  }
  return schemas;
}

/** Returns the names of `properties` in the schema's order, followed by names that are only required. */
export function listDeclaredNames(alternative: ObjectAlternative): readonly string[] {
  const names = new Set<string>();
  for (const facet of alternative.facets)
    for (const name of facet.properties.keys()) names.add(name);
  for (const name of alternative.required) names.add(name);
  return [...names];
}

/**
 * Returns true if Berth closes the object: it has properties or patterns, but no keyword for additional properties.
 * JSON Schema would allow additional properties; Berth generates the smaller set.
 */
export function isImplicitlyClosed(alternative: ObjectAlternative): boolean {
  return (
    alternative.facets.every((facet) => facet.additional === undefined) &&
    alternative.facets.some((facet) => !facet.negative)
  );
}

/** Returns the schemas that the array item at `index` must satisfy, at most one from each merged schema object. */
export function getItemSchemas(alternative: ArrayAlternative, index: number): SchemaConjunction {
  let schemas = unconstrained;
  for (const facet of alternative.facets) {
    schemas = conjoin(schemas, facet.prefix[index] ?? facet.rest ?? unconstrained);
  }
  return schemas;
}

/** Returns the number of leading items that have a schema in some `prefixItems`. All later items share one schema. */
export function getPrefixLength(facets: readonly ArrayFacet[]): number {
  return Math.max(0, ...facets.map((facet) => facet.prefix.length));
}
