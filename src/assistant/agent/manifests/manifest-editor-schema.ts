import {
  APP_ID_CHARS_MAX,
  appIdPattern,
  DESCRIPTION_CHARS_MAX,
  MANIFEST_VERSION,
  NAME_CHARS_MAX,
  TOOLS_MAX,
  tiers,
  toolNamePattern,
  undoExpressionPattern,
} from "./manifest-format.ts";

/**
 * The text of schemas/ToolManifest.json, for completion in editors. What editors cannot judge, `berth tools lint`
 * does: schemas, maps of undo, names of files.
 */
export function toolManifestEditorSchema(): string {
  return `${JSON.stringify(schema, null, 2)}\n`;
}

const displayText = { type: "string", minLength: 1 };

const undo = {
  description: "The tool of this app that takes a call back, and where its arguments come from.",
  type: "object",
  required: ["tool"],
  properties: {
    tool: { type: "string", pattern: toolNamePattern.source },
    map: {
      description: "Argument of that tool to $input.<field> or $result.<field>.",
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
      description: "For people, in a few words.",
      ...displayText,
      maxLength: NAME_CHARS_MAX,
    },
    tier: {
      description:
        "read looks, write changes what can be changed back, destructive does not. Without one: destructive.",
      enum: tiers,
    },
    description: {
      description: "What it does. People decide by it, and it is found by it.",
      type: "string",
      maxLength: DESCRIPTION_CHARS_MAX,
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
  // Editors know this draft best.
  $schema: "http://json-schema.org/draft-07/schema#",
  title: "Tool manifest",
  description: "What an app offers to the assistant: <app_id>.json in assistant/manifests/.",
  type: "object",
  required: ["svc_manifest", "app_id", "mcp", "tools"],
  properties: {
    $schema: { type: "string" },
    svc_manifest: { description: "Version of the format.", const: MANIFEST_VERSION },
    app_id: {
      description: "Reverse-domain name of the app; the file is called after it.",
      type: "string",
      pattern: appIdPattern.source,
      maxLength: APP_ID_CHARS_MAX,
    },
    name: { description: "The app's name, for people.", ...displayText, maxLength: NAME_CHARS_MAX },
    description: {
      description: "What the app is for.",
      ...displayText,
      maxLength: DESCRIPTION_CHARS_MAX,
    },
    mcp: {
      description: "How the app is reached.",
      type: "object",
      required: ["transport"],
      properties: {
        transport: { const: "unix" },
        activatable: {
          description: "Whether the app may be started for a call. Without it: false.",
          type: "boolean",
        },
      },
    },
    tools: { type: "array", maxItems: TOOLS_MAX, items: tool },
  },
};
