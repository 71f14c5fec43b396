import { isObject } from "../../../base/json.ts";
import type { JsonObject } from "../port.ts";
import type { AppManifest, ToolDeclaration } from "../tool-manifest.ts";

export const searchableFields = [
  "name",
  "title",
  "description",
  "properties",
  "appName",
  "keywords",
  "examples",
] as const;

/** A tool with the texts that Discover searches. */
export interface SearchableTool
  extends Readonly<Record<(typeof searchableFields)[number], string>> {
  readonly app: AppManifest;
  readonly tool: ToolDeclaration;
  /** The ids of the app and the tool in one text. Unlike the declaration's digest, this text is unique. */
  readonly id: string;
}

/**
 * The number of characters of each text that are searched. The limit bounds the time to build the index of tools, and
 * the number of words with which one tool can match.
 */
const SEARCHED_CHARS_MAX = 1000;
/** Arguments nested deeper than this are not searchable. */
const DEPTH_MAX = 3;
const PROPERTIES_MAX = 100;

export function toSearchableTools(apps: readonly AppManifest[]): readonly SearchableTool[] {
  return apps.flatMap((app) =>
    app.tools.map((tool) => ({
      app,
      tool,
      id: `${app.appId}/${tool.name}`,
      name: tool.name,
      title: tool.title === tool.name ? "" : tool.title,
      description: tool.description.slice(0, SEARCHED_CHARS_MAX),
      // The names, titles and descriptions of the arguments.
      properties: collectPropertyText(tool.inputSchema).slice(0, SEARCHED_CHARS_MAX),
      keywords: tool.keywords.join("\n"),
      examples: tool.examples.join("\n"),
      appName: describeApp(app).slice(0, SEARCHED_CHARS_MAX),
    })),
  );
}

/** Returns a description of the tool as one text for an embedder. */
export function buildEmbeddingText(searchable: SearchableTool): string {
  const { name, title, description, appName, tool } = searchable;
  const head = title || name.replaceAll(/[_.-]+/g, " ");
  return `${head}. ${description} ${tool.keywords.join(", ")} (${appName.trim()})`;
}

function collectPropertyText(schema: JsonObject): string {
  const words: string[] = [];
  const visit = (part: unknown, depth: number): void => {
    if (!isObject(part) || depth > DEPTH_MAX || words.length > PROPERTIES_MAX) return;
    const properties = part["properties"];
    if (!isObject(properties)) return;
    for (const [name, property] of Object.entries(properties)) {
      words.push(name);
      if (!isObject(property)) continue;
      for (const text of [property["title"], property["description"]]) {
        if (typeof text === "string") words.push(text);
      }
      visit(property, depth + 1);
      visit(property["items"], depth + 1);
    }
  };
  visit(schema, 1);
  return words.join(" ");
}

function describeApp({ appId, name, description }: AppManifest): string {
  return name === appId ? getLastSegment(appId) : `${name} ${description ?? ""}`;
}

function getLastSegment(appId: string): string {
  return appId.slice(appId.lastIndexOf(".") + 1);
}
