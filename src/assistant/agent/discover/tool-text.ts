import type { AppManifest, ToolDeclaration } from "../manifest.ts";
import type { JsonObject } from "../port.ts";

/** A tool, and the texts by which it is found. */
export interface ToolText {
  readonly app: AppManifest;
  readonly tool: ToolDeclaration;
  /** Of the app and the tool; unlike the digest, two tools never have the same. */
  readonly id: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** Names of the arguments, and what the schema says about them. */
  readonly properties: string;
  readonly appName: string;
}

/** Deeper arguments say little of what a tool is for. */
const DEPTH_MAX = 3;
const PROPERTIES_MAX = 100;

export function toolTexts(apps: readonly AppManifest[]): readonly ToolText[] {
  return apps.flatMap((app) =>
    app.tools.map((tool) => ({
      app,
      tool,
      id: `${app.appId}/${tool.name}`,
      name: tool.name,
      title: tool.title === tool.name ? "" : tool.title,
      description: tool.description,
      properties: propertiesOf(tool.inputSchema),
      appName:
        app.name === app.appId ? lastPart(app.appId) : `${app.name} ${app.description ?? ""}`,
    })),
  );
}

/** One text for an embedder: what a person would say about the tool. */
export function sentenceOf({ name, title, description, appName }: ToolText): string {
  const head = title || name.replaceAll(/[_.-]+/g, " ");
  return `${head}. ${description} (${appName.trim()})`;
}

function propertiesOf(schema: JsonObject): string {
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

function lastPart(appId: string): string {
  return appId.slice(appId.lastIndexOf(".") + 1);
}

function isObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
