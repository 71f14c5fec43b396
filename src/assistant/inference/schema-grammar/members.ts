import type { ArrayFacet, ArrayPart, ObjectPart, Schemas } from "./part.ts";
import { anyString, anything, bothHold } from "./part.ts";
import type { ScalarGrammar } from "./scalars.ts";

/** What the property `name` has to meet, over all schemas that were merged into the object. */
export function propertySchemas(part: ObjectPart, name: string, scalars: ScalarGrammar): Schemas {
  let schemas = anything;
  for (const facet of part.facets) {
    let mentioned = false;
    const property = facet.properties.get(name);
    if (property) {
      schemas = bothHold(schemas, property);
      mentioned = true;
    }
    for (const { pattern, schemas: more } of facet.patterns) {
      if (!scalars.allowsString({ ...anyString, patterns: [pattern] }, name)) continue;
      schemas = bothHold(schemas, more);
      mentioned = true;
    }
    if (!mentioned && facet.additional) schemas = bothHold(schemas, facet.additional);
  }
  return schemas;
}

/** The names of `properties`, in the order of the schema, and after them what is only required. */
export function declaredNames(part: ObjectPart): readonly string[] {
  const names = new Set<string>();
  for (const facet of part.facets) for (const name of facet.properties.keys()) names.add(name);
  for (const name of part.required) names.add(name);
  return [...names];
}

/**
 * Berth's rule: an object that has properties or patterns, and says nothing of additional ones, gets no
 * others. JSON Schema would allow them; what is generated is the smaller set.
 */
export function isClosedByRule(part: ObjectPart): boolean {
  return (
    part.facets.every((facet) => facet.additional === undefined) &&
    part.facets.some((facet) => !facet.negative)
  );
}

/** What the item at `index` has to meet. */
export function itemSchemas(part: ArrayPart, index: number): Schemas {
  let schemas = anything;
  for (const facet of part.facets) {
    schemas = bothHold(schemas, facet.prefix[index] ?? facet.rest ?? anything);
  }
  return schemas;
}

/** How many items have schemas of their own; those after them share one. */
export function prefixLength(facets: readonly ArrayFacet[]): number {
  return Math.max(0, ...facets.map((facet) => facet.prefix.length));
}
