import {
  APP_ID_CHARS_MAX,
  appIdPattern,
  DESCRIPTION_CHARS_MAX,
  MANIFEST_VERSION,
  NAME_CHARS_MAX,
  searchTextLimits,
  TOOLS_MAX,
  tiers,
  toolNamePattern,
  undoExpressionPattern,
} from "./manifest-format.ts";

/**
 * Returns the text of schemas/ToolManifest.json, which editors use for completion. `berth tools lint` also checks
 * what an editor cannot: input schemas, undo maps and file names.
 */
export function toolManifestEditorSchema(): string {
  return `${JSON.stringify(schema, null, 2)}\n`;
}

const displayText = { type: "string", minLength: 1 };

const searchTexts = ({ itemsMax, charsMax }: { itemsMax: number; charsMax: number }) => ({
  type: "array",
  maxItems: itemsMax,
  items: { ...displayText, maxLength: charsMax },
});

const undo = {
  description:
    "The tool of this app that reverts a call, and the sources of that tool's arguments.",
  type: "object",
  required: ["tool"],
  properties: {
    tool: { type: "string", pattern: toolNamePattern.source },
    map: {
      description: "Maps each argument of the reverting tool to $input.<field> or $result.<field>.",
      type: "object",
      additionalProperties: { type: "string", pattern: undoExpressionPattern.source },
    },
  },
};

const tool = {
  type: "object",
  required: ["name", "input_schema"],
  properties: {
    name: {
      description: "1 to 128 letters, digits, _, . and -",
      type: "string",
      pattern: toolNamePattern.source,
    },
    title: {
      description: "A short title that users see.",
      ...displayText,
      maxLength: NAME_CHARS_MAX,
    },
    tier: {
      description:
        "A read tool only reads, a write tool makes changes that can be reverted, and a destructive tool makes changes that cannot be reverted. Default: destructive.",
      enum: tiers,
    },
    description: {
      description: "What the tool does. Users decide by this text, and tool discovery searches it.",
      type: "string",
      maxLength: DESCRIPTION_CHARS_MAX,
    },
    keywords: {
      description:
        "Further words by which users ask for the tool, such as synonyms. Only tool discovery reads them.",
      ...searchTexts(searchTextLimits.keywords),
    },
    examples: {
      description: "Requests for the tool, as users word them. Only tool discovery reads them.",
      ...searchTexts(searchTextLimits.examples),
    },
    input_schema: {
      description: "JSON Schema of the arguments, 2020-12 or draft-07, of type object.",
      type: "object",
      required: ["type"],
      properties: { type: { const: "object" } },
    },
    undo,
  },
};

const schema = {
  // The schema uses draft-07, because editors support that draft best.
  $schema: "http://json-schema.org/draft-07/schema#",
  title: "Tool manifest",
  description:
    "The tools that an app offers to the assistant: <app_id>.json in assistant/manifests/.",
  type: "object",
  required: ["svc_manifest", "app_id", "mcp", "tools"],
  properties: {
    $schema: { type: "string" },
    svc_manifest: { description: "Version of the format.", const: MANIFEST_VERSION },
    app_id: {
      description: "Reverse-domain name of the app; the file is named after it.",
      type: "string",
      pattern: appIdPattern.source,
      maxLength: APP_ID_CHARS_MAX,
    },
    name: {
      description: "The app's name as users see it.",
      ...displayText,
      maxLength: NAME_CHARS_MAX,
    },
    description: {
      description: "The purpose of the app.",
      ...displayText,
      maxLength: DESCRIPTION_CHARS_MAX,
    },
    mcp: {
      description: "The connection to the app.",
      type: "object",
      required: ["transport"],
      properties: {
        transport: { const: "unix" },
        activatable: {
          description: "Allows starting the app for a call. Default: false.",
          type: "boolean",
        },
      },
    },
    tools: { type: "array", maxItems: TOOLS_MAX, items: tool },
  },
};
