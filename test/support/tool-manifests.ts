/** Tool manifests for tests, as JSON documents. */

export type Document = Record<string, unknown>;

export const noArguments = { type: "object", additionalProperties: false };

export function objectSchema(
  properties: Document,
  required: readonly string[] = Object.keys(properties),
): Document {
  return { type: "object", required, additionalProperties: false, properties };
}

/** A manifest of a notes app that reaches the limits of the specification and has a valid undo. */
export function notesManifest(changes: Document = {}): Document {
  return {
    svc_manifest: 1,
    app_id: "org.example.Notes",
    name: "Notes",
    mcp: { transport: "unix", activatable: true },
    tools: [
      {
        name: "notes.create",
        title: "Create a note",
        tier: "write",
        description: "Creates a note.",
        input_schema: objectSchema(
          {
            title: { type: "string", maxLength: 120 },
            body: { type: "string", maxLength: 4000 },
          },
          ["title"],
        ),
        undo: { tool: "notes.delete", map: { id: "$result.id" } },
      },
      {
        name: "notes.delete",
        tier: "destructive",
        description: "Deletes a note for good.",
        input_schema: objectSchema({ id: { type: "string" } }),
      },
    ],
    ...changes,
  };
}

/** Returns a manifest with one tool that has this input schema. */
export function withSchema(schema: unknown): Document {
  const tool = { name: "do", tier: "read", description: "Does it.", input_schema: schema };
  return notesManifest({ tools: [tool] });
}
