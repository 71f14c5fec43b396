// Runs after tsc, and writes the files that are generated from the compiled code. It is idempotent.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const { createEditorSchemas } = await import(
  new URL("../dist/resources/spec-editor-schemas.js", import.meta.url)
);
const { toolManifestEditorSchema } = await import(
  new URL("../dist/assistant/agent/manifests/manifest-editor-schema.js", import.meta.url)
);
const schemas = [...createEditorSchemas(), ["ToolManifest.json", toolManifestEditorSchema()]];

await mkdir(join(root, "schemas"), { recursive: true });
for (const [name, text] of schemas) {
  const file = join(root, "schemas", name);
  const current = await readFile(file, "utf8").catch(() => undefined);
  if (current !== text) await writeFile(file, text);
}
