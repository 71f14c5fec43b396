import { toolManifestEditorSchema } from "../src/assistant/agent/manifests/manifest-editor-schema.ts";
import { createEditorSchemas } from "../src/resources/spec-editor-schemas.ts";

/** Returns the name and the content of each file in `schemas/`. */
export function editorSchemas(): [name: string, text: string][] {
  return [...createEditorSchemas(), ["ToolManifest.json", toolManifestEditorSchema()]];
}
