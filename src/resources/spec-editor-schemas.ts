import { createManifestSchema, type Kind, kinds, specSchemas } from "./kinds.ts";

/**
 * Creates the JSON Schema files that editors use for completion and checks of spec files (`# yaml-language-server:
 * $schema=...`): one for each kind, and `berth.json` for files with several kinds. Returns the texts by file name.
 */
export function createEditorSchemas(): ReadonlyMap<string, string> {
  const files = new Map<string, object>(
    kinds.map((kind) => [`${kind}.json`, { ...head, ...createDocumentSchema(kind) }]),
  );
  files.set("berth.json", {
    ...head,
    title: "Berth",
    description: "A document of a spec file: an App, Model, Template or Secret.",
    type: "object",
    required: ["apiVersion", "kind", "metadata", "spec"],
    anyOf: kinds.map(createDocumentSchema),
  });
  return new Map(
    [...files].map(([name, schema]) => [name, `${JSON.stringify(schema, null, 2)}\n`]),
  );
}

/** The draft of JSON Schema that editors support best. It has every keyword that the specs' schemas use. */
const head = { $schema: "http://json-schema.org/draft-07/schema#" };

function createDocumentSchema(kind: Kind): object {
  const spec: object = specSchemas[kind];
  return {
    ...createManifestSchema(kind),
    ...("description" in spec && { description: spec.description }),
  };
}
