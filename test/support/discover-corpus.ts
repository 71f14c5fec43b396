import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseBuiltInManifest } from "../../src/assistant/agent/manifests/parse-manifest.ts";
import type { AppManifest } from "../../src/assistant/agent/tool-manifest.ts";

const folder = join(import.meta.dirname, "../fixtures/discover");

interface CompactApp {
  readonly id: string;
  readonly name: string;
  /** The tools, each with name, title, description, and the descriptions of its arguments. */
  readonly tools: readonly [string, string, string, Readonly<Record<string, string>>][];
}

/** Returns ninety tools of fourteen apps, in the form of manifests. */
export function corpusApps(): readonly AppManifest[] {
  const apps: CompactApp[] = JSON.parse(readFileSync(join(folder, "apps.json"), "utf8"));
  return apps
    .map(({ id, name, tools }) =>
      parseBuiltInManifest({
        svc_manifest: 1,
        app_id: id,
        name,
        mcp: { transport: "unix" },
        tools: tools.map(([toolName, title, description, args]) => ({
          name: toolName,
          title,
          tier: "read",
          description,
          input_schema: {
            type: "object",
            properties: Object.fromEntries(
              Object.entries(args).map(([arg, text]) => [
                arg,
                { type: "string", ...(text !== "" && { description: text }) },
              ]),
            ),
          },
        })),
      }),
    )
    .toSorted((a, b) => (a.appId < b.appId ? -1 : 1));
}

export interface LabelledQuery {
  readonly query: string;
  /** The names of the tools that match the query, with the best one first. */
  readonly wanted: readonly string[];
}

export function corpusQueries(): readonly LabelledQuery[] {
  const lines = readFileSync(join(folder, "queries.txt"), "utf8").split("\n");
  return lines
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [query = "", wanted = ""] = line.split(" | ");
      return { query, wanted: wanted.split(" ") };
    });
}
