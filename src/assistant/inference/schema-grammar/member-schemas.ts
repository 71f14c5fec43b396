import type {
  ArrayAlternative,
  ArrayFacet,
  ObjectAlternative,
  SchemaConjunction,
} from "./normal-form.ts";
import { anyString, conjoin, unconstrained } from "./normal-form.ts";
import type { ScalarGrammar } from "./scalar-constraints.ts";

/** What the property `name` has to meet, over all schemas that were merged into the object. */
export function getPropertySchemas(
  part: ObjectAlternative,
  name: string,
  scalars: ScalarGrammar,
): SchemaConjunction {
  let schemas = unconstrained;
  for (const facet of part.facets) {
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

/** The names of `properties`, in the order of the schema, and after them what is only required. */
export function listDeclaredNames(part: ObjectAlternative): readonly string[] {
  const names = new Set<string>();
  for (const facet of part.facets) for (const name of facet.properties.keys()) names.add(name);
  for (const name of part.required) names.add(name);
  return [...names];
}

/**
 * Berth's rule: an object that has properties or patterns, and says nothing of additional ones, gets no
 * others. JSON Schema would allow them; what is generated is the smaller set.
 */
export function isImplicitlyClosed(part: ObjectAlternative): boolean {
  return (
    part.facets.every((facet) => facet.additional === undefined) &&
    part.facets.some((facet) => !facet.negative)
  );
}

/** What the item at `index` has to meet. */
export function getItemSchemas(part: ArrayAlternative, index: number): SchemaConjunction {
  let schemas = unconstrained;
  for (const facet of part.facets) {
    schemas = conjoin(schemas, facet.prefix[index] ?? facet.rest ?? unconstrained);
  }
  return schemas;
}

/** How many items have schemas of their own; those after them share one. */
export function getPrefixLength(facets: readonly ArrayFacet[]): number {
  return Math.max(0, ...facets.map((facet) => facet.prefix.length));
}
