import { getOwn } from "../../../base/json.ts";
import { getPrefixLength } from "./member-schemas.ts";
import type { Alternative, SchemaConjunction } from "./normal-form.ts";
import { unconstrained } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import type { SchemaNode } from "./schema-document.ts";
import { extendPointer, refuseKeyword } from "./schema-refusal.ts";

/**
 * Applies unevaluatedProperties and unevaluatedItems to the alternatives of a schema's normal form. An alternative is
 * merged from exactly the subschemas that apply together, so all properties and items that these mention count as
 * evaluated.
 */
export function restrictUnevaluated(
  normalizer: NormalizerContext,
  node: SchemaNode,
  raw: Readonly<Record<string, unknown>>,
  alternatives: readonly Alternative[],
): readonly Alternative[] {
  const properties = getOwn(raw, "unevaluatedProperties");
  const items = getOwn(raw, "unevaluatedItems");
  if (properties === undefined && items === undefined) return alternatives;
  const forProperties =
    properties === undefined ? undefined : normalizer.child(node, "unevaluatedProperties");
  const forItems = items === undefined ? undefined : normalizer.child(node, "unevaluatedItems");
  return alternatives.map((alternative) => {
    if (alternative.kind === "object" && forProperties)
      return restrictObject(normalizer, alternative, forProperties);
    if (alternative.kind === "array" && forItems)
      return restrictArray(normalizer, node, alternative, forItems);
    // Berth does not check the objects and arrays of `const` or `enum` against `unevaluatedProperties` or
    // `unevaluatedItems`, so it refuses such a schema.
    if (
      alternative.kind === "values" &&
      alternative.values.some((value) => typeof value === "object" && value)
    ) {
      const keyword = forProperties ? "unevaluatedProperties" : "unevaluatedItems";
      refuseKeyword(
        keyword,
        extendPointer(node.pointer, keyword),
        "cannot be combined with const or enum",
      );
    }
    return alternative;
  });
}

function restrictObject(
  normalizer: NormalizerContext,
  alternative: Extract<Alternative, { kind: "object" }>,
  schemas: SchemaConjunction,
): Alternative {
  const facets = alternative.facets.filter((facet) => !facet.negative);
  if (facets.some((facet) => facet.additional !== undefined)) return alternative;
  return {
    ...alternative,
    facets: [
      ...alternative.facets,
      {
        id: normalizer.nextFacetId(),
        properties: new Map(
          facets.flatMap((facet) =>
            [...facet.properties.keys()].map((name) => [name, unconstrained]),
          ),
        ),
        patterns: facets.flatMap((facet) =>
          facet.patterns.map(({ pattern }) => ({ pattern, schemas: unconstrained })),
        ),
        additional: schemas,
        negative: false,
      },
    ],
  };
}

function restrictArray(
  normalizer: NormalizerContext,
  node: SchemaNode,
  alternative: Extract<Alternative, { kind: "array" }>,
  schemas: SchemaConjunction,
): Alternative {
  const seen = alternative.facets.filter((facet) => !facet.negative);
  if (seen.some((facet) => facet.rest !== undefined)) return alternative;
  if (alternative.contains.length > 0) {
    refuseKeyword(
      "unevaluatedItems",
      extendPointer(node.pointer, "unevaluatedItems"),
      "cannot be combined with contains",
    );
  }
  return {
    ...alternative,
    facets: [
      ...alternative.facets,
      {
        id: normalizer.nextFacetId(),
        negative: false,
        prefix: Array.from({ length: getPrefixLength(seen) }, () => unconstrained),
        rest: schemas,
      },
    ],
  };
}
