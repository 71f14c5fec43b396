import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";
import { kinds } from "../../../src/resources/kinds.ts";
import { createEditorSchemas } from "../../../src/resources/spec-editor-schemas.ts";

const folder = join(import.meta.dirname, "../../../schemas");

describe("the schema files for editors", () => {
  it("exist for each kind and for all kinds, and equal what the code generates", async () => {
    const generated = createEditorSchemas();
    const names = [...generated.keys()].toSorted();
    expect(names).toEqual([...kinds.map((kind) => `${kind}.json`), "berth.json"].toSorted());
    // The assistant's own tests cover the schema of tool manifests.
    const found = (await readdir(folder)).filter((name) => name !== "ToolManifest.json");
    expect(found.toSorted()).toEqual(names);
    for (const [name, text] of generated) {
      // If a file differs from the generated text, `npm run build` writes it again.
      expect(await readFile(join(folder, name), "utf8")).toBe(text);
    }
  });

  it.each(kinds)(
    "validate a %s by its own schema, and by the schema of all kinds",
    async (kind) => {
      const document = {
        apiVersion: "berth.dev/v1",
        kind,
        metadata: { name: "x" },
        spec: {
          App: { image: "nginx" },
          Model: { source: "org/name" },
          Template: { title: "t", description: "d", category: "c", app: {} },
          Secret: { data: { a: "b" } },
        }[kind],
      };
      for (const file of [`${kind}.json`, "berth.json"]) {
        const schema: object = JSON.parse(await readFile(join(folder, file), "utf8"));
        const validate = new Ajv({ strict: false }).compile(schema);
        expect(validate(document)).toBe(true);
        expect(validate({ ...document, spec: { ...document.spec, nonsense: 1 } })).toBe(false);
        expect(validate({ ...document, kind: "Nonsense" })).toBe(false);
      }
    },
  );
});
