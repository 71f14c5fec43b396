import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";
import { toolManifestEditorSchema } from "../../../../../src/assistant/agent/manifests/manifest-editor-schema.ts";
import {
  manifestFields,
  mcpFields,
  toolFields,
  undoFields,
} from "../../../../../src/assistant/agent/manifests/manifest-format.ts";
import {
  parseManifest,
  readToolManifest,
} from "../../../../../src/assistant/agent/manifests/parse-manifest.ts";
import { type Document, noArguments, notesManifest } from "../../../../support/tool-manifests.ts";

const root = join(import.meta.dirname, "../../../../..");
const schema = JSON.parse(toolManifestEditorSchema());
const validate = new Ajv({ strict: true }).compile(schema);
const tool = (changes: Document = {}) => ({ name: "a", input_schema: noArguments, ...changes });
const withTools = (...tools: unknown[]) => notesManifest({ tools });

describe("the schema for editors", () => {
  it("is the file that is shipped", () => {
    expect(readFileSync(join(root, "schemas/ToolManifest.json"), "utf8")).toBe(
      toolManifestEditorSchema(),
    );
  });

  it("knows the fields that the reader knows", () => {
    const toolSchema = schema.properties.tools.items;
    expect(Object.keys(schema.properties)).toEqual([...manifestFields]);
    expect(Object.keys(schema.properties.mcp.properties)).toEqual([...mcpFields]);
    expect(Object.keys(toolSchema.properties)).toEqual([...toolFields]);
    expect(Object.keys(toolSchema.properties.undo.properties)).toEqual([...undoFields]);
  });

  it.each<[string, unknown, boolean]>([
    ["a good one", notesManifest(), true],
    ["no tools", withTools(), true],
    ["a tool without a tier", withTools(tool()), true],
    ["an empty description", withTools(tool({ description: "" })), true],
    ["no object", [], false],
    ["another version", notesManifest({ svc_manifest: 2 }), false],
    ["no id", notesManifest({ app_id: "notes" }), false],
    ["an empty name", notesManifest({ name: "" }), false],
    ["another transport", notesManifest({ mcp: { transport: "tcp" } }), false],
    ["no transport", notesManifest({ mcp: {} }), false],
    ["tools that are no list", notesManifest({ tools: {} }), false],
    ["a wrong tier", withTools(tool({ tier: "wirte" })), false],
    ["a wrong name", withTools(tool({ name: "a b" })), false],
    ["no schema", withTools({ name: "a" }), false],
    ["a schema of a list", withTools(tool({ input_schema: { type: "array" } })), false],
    ["an undo without its tool", withTools(tool({ undo: { map: {} } })), false],
    [
      "a constant in an undo",
      withTools(tool({ undo: { tool: "b", map: { a: "1" } } }), tool({ name: "b" })),
      false,
    ],
    ["a name that is too long", notesManifest({ name: "x".repeat(101) }), false],
  ])("judges as the reader does: %s", (_, document, isGood) => {
    expect(validate(document)).toBe(isGood);
    expect(readToolManifest(document, undefined).manifest !== undefined).toBe(isGood);
  });
});

describe("what is shown to others", () => {
  const page = readFileSync(join(root, "docs/tool-manifests.md"), "utf8");

  it("is a manifest without a fault", () => {
    const shown = /```json\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
    const parsed = parseManifest(Buffer.from(shown), "org.example.Notes");
    expect(parsed.faults).toEqual([]);
    expect(parsed.manifest?.tools[0]?.undo?.map.get("id")?.fields).toEqual(["note", "id"]);
  });

  it.each([...manifestFields, ...mcpFields, ...toolFields, ...undoFields])(
    "tells of %s",
    (field) => {
      expect(page).toContain(field);
    },
  );
});
