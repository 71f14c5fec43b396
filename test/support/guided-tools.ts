import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseBuiltInManifest } from "../../src/assistant/agent/manifests/parse-manifest.ts";
import type { AppManifest } from "../../src/assistant/agent/tool-manifest.ts";
import type { ToolCandidate } from "../../src/assistant/overlay/agent-pass/tool-candidates.ts";
import { berthAppsManifest } from "../../src/base/berth-tool-manifest.ts";
import { notesManifest } from "./tool-manifests.ts";

const examples = join(import.meta.dirname, "../../examples");

/**
 * Returns the apps whose schemas were written by hand: the examples, Berth's own tools, and the notes app of the
 * tests.
 */
export function writtenApps(): readonly AppManifest[] {
  const files = ["notes-app/org.example.Notes.json", "mcp-bridge/org.example.Memory.json"];
  const written = files.map((file): object =>
    JSON.parse(readFileSync(join(examples, file), "utf8")),
  );
  return [...written, berthAppsManifest, notesManifest()].map((document) =>
    parseBuiltInManifest(document),
  );
}

/** Returns all tools of an app as candidates for the agent pass. */
export function candidatesOf(app: AppManifest): readonly ToolCandidate[] {
  return app.tools.map(({ name, tier, description, inputSchema, digest }) => ({
    name: `${app.appId}/${name}`,
    appId: app.appId,
    tool: name,
    tier,
    description,
    inputSchema,
    digest,
  }));
}
