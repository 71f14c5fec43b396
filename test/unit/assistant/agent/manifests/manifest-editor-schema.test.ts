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

describe("the editor schema of manifests", () => {
  it("equals the file that ships with Berth", () => {
    expect(readFileSync(join(root, "schemas/ToolManifest.json"), "utf8")).toBe(
      toolManifestEditorSchema(),
    );
  });

  it("has the same fields as the manifest parser", () => {
    const toolSchema = schema.properties.tools.items;
    expect(Object.keys(schema.properties)).toEqual([...manifestFields]);
    expect(Object.keys(schema.properties.mcp.properties)).toEqual([...mcpFields]);
    expect(Object.keys(toolSchema.properties)).toEqual([...toolFields]);
    expect(Object.keys(toolSchema.properties.undo.properties)).toEqual([...undoFields]);
  });

  it.each<[string, unknown, boolean]>([
    ["a valid manifest", notesManifest(), true],
    ["no tools", withTools(), true],
    ["a tool without a tier", withTools(tool()), true],
    ["an empty description", withTools(tool({ description: "" })), true],
    ["no object", [], false],
    ["another version", notesManifest({ svc_manifest: 2 }), false],
    ["no id", notesManifest({ app_id: "notes" }), false],
    ["an empty name", notesManifest({ name: "" }), false],
    ["another transport", notesManifest({ mcp: { transport: "tcp" } }), false],
    ["no transport", notesManifest({ mcp: {} }), false],
    ["tools that are not a list", notesManifest({ tools: {} }), false],
    ["an invalid tier", withTools(tool({ tier: "wirte" })), false],
    ["an invalid name", withTools(tool({ name: "a b" })), false],
    ["no schema", withTools({ name: "a" }), false],
    ["a schema of type array", withTools(tool({ input_schema: { type: "array" } })), false],
    ["keywords and examples", withTools(tool({ keywords: ["a"], examples: ["b c"] })), true],
    ["an empty keyword", withTools(tool({ keywords: [""] })), false],
    ["an example that is too long", withTools(tool({ examples: ["x".repeat(121)] })), false],
    ["too many examples", withTools(tool({ examples: Array(11).fill("x") })), false],
    ["an undo without a tool", withTools(tool({ undo: { map: {} } })), false],
    [
      "a constant in an undo",
      withTools(tool({ undo: { tool: "b", map: { a: "1" } } }), tool({ name: "b" })),
      false,
    ],
    ["a name that is too long", notesManifest({ name: "x".repeat(101) }), false],
  ])("accepts the same manifests as the manifest parser: %s", (_, document, isGood) => {
    expect(validate(document)).toBe(isGood);
    expect(readToolManifest(document, undefined).manifest !== undefined).toBe(isGood);
  });
});

describe("the documentation of manifests", () => {
  const page = readFileSync(join(root, "docs/tool-manifests.md"), "utf8");

  it("contains an example without faults", () => {
    const shown = /```json\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
    const parsed = parseManifest(Buffer.from(shown), "org.example.Notes");
    expect(parsed.faults).toEqual([]);
    expect(parsed.manifest?.tools[0]?.undo?.map.get("id")?.fields).toEqual(["note", "id"]);
  });

  it.each([...manifestFields, ...mcpFields, ...toolFields, ...undoFields])(
    "documents the field %s",
    (field) => {
      expect(page).toContain(field);
    },
  );
});
