import { own } from "./json.ts";
import { prefixLength } from "./members.ts";
import type { Part, Schemas } from "./part.ts";
import { anything } from "./part.ts";
import { pointerTo, refuse } from "./refusal.ts";
import type { SchemaNode } from "./schema-document.ts";
import type { ShapeContext } from "./shape-context.ts";

/**
 * unevaluatedProperties and unevaluatedItems. A part has been merged from exactly those schemas that hold
 * together, so what they mention between them is what counts as evaluated.
 */
export function restrictUnevaluated(
  shapes: ShapeContext,
  node: SchemaNode,
  raw: Readonly<Record<string, unknown>>,
  parts: readonly Part[],
): readonly Part[] {
  const properties = own(raw, "unevaluatedProperties");
  const items = own(raw, "unevaluatedItems");
  if (properties === undefined && items === undefined) return parts;
  const forProperties =
    properties === undefined ? undefined : shapes.child(node, "unevaluatedProperties");
  const forItems = items === undefined ? undefined : shapes.child(node, "unevaluatedItems");
  return parts.map((part) => {
    if (part.kind === "object" && forProperties) return ofObject(shapes, part, forProperties);
    if (part.kind === "array" && forItems) return ofArray(shapes, node, part, forItems);
    // A named value is checked against what it was met with, which knows nothing of this.
    if (part.kind === "values" && part.values.some((value) => typeof value === "object" && value)) {
      const keyword = forProperties ? "unevaluatedProperties" : "unevaluatedItems";
      refuse(keyword, pointerTo(node.pointer, keyword), "stands beside const or enum");
    }
    return part;
  });
}

function ofObject(
  shapes: ShapeContext,
  part: Extract<Part, { kind: "object" }>,
  schemas: Schemas,
): Part {
  const facets = part.facets.filter((facet) => !facet.negative);
  if (facets.some((facet) => facet.additional !== undefined)) return part;
  return {
    ...part,
    facets: [
      ...part.facets,
      {
        id: shapes.nextFacet(),
        properties: new Map(
          facets.flatMap((facet) => [...facet.properties.keys()].map((name) => [name, anything])),
        ),
        patterns: facets.flatMap((facet) =>
          facet.patterns.map(({ pattern }) => ({ pattern, schemas: anything })),
        ),
        additional: schemas,
        negative: false,
      },
    ],
  };
}

function ofArray(
  shapes: ShapeContext,
  node: SchemaNode,
  part: Extract<Part, { kind: "array" }>,
  schemas: Schemas,
): Part {
  const seen = part.facets.filter((facet) => !facet.negative);
  if (seen.some((facet) => facet.rest !== undefined)) return part;
  if (part.contains.length > 0) {
    refuse(
      "unevaluatedItems",
      pointerTo(node.pointer, "unevaluatedItems"),
      "stands beside contains",
    );
  }
  return {
    ...part,
    facets: [
      ...part.facets,
      {
        id: shapes.nextFacet(),
        negative: false,
        prefix: Array.from({ length: prefixLength(seen) }, () => anything),
        rest: schemas,
      },
    ],
  };
}
