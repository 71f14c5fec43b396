/** The field names, patterns and limits of a tool manifest, shared by the parser and the editor schema. */

export const MANIFEST_VERSION = 1;

/**
 * The largest size of a manifest file in bytes. A larger file is rejected; TOOLS_MAX tools with ordinary descriptions
 * need less.
 */
export const MANIFEST_BYTES_MAX = 1024 * 1024;
export const TOOLS_MAX = 500;
export const NAME_CHARS_MAX = 100;
export const DESCRIPTION_CHARS_MAX = 8000;
/**
 * The limits of the texts that only tool discovery reads. They allow enough words to describe a tool, and prevent a
 * manifest from listing all words of a language, with which the tool would match every request.
 */
export const searchTextLimits = {
  keywords: { itemsMax: 20, charsMax: 40 },
  examples: { itemsMax: 10, charsMax: 120 },
} as const;

/** A reverse-domain name that is also a valid bus name: two or more elements, none of which begins with a digit. */
export const appIdPattern = /^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$/;
/** The maximum length of an app id: the file name, which is the id followed by `.json`, may have at most 255 bytes. */
export const APP_ID_CHARS_MAX = 250;

/** The pattern that MCP specifies for tool names. */
export const toolNamePattern = /^[A-Za-z0-9_.-]{1,128}$/;

/** Matches expressions such as `$input.title` and `$result.note.id`. No field may be `__proto__`. */
export const undoExpressionPattern =
  /^\$(input|result)((?:\.(?!__proto__(?:\.|$))[A-Za-z0-9_-]+)+)$/;

/** The tiers of tools, from the lowest risk to the highest. */
export const tiers = ["read", "write", "destructive"] as const;

export const manifestFields = [
  "$schema",
  "svc_manifest",
  "app_id",
  "name",
  "description",
  "mcp",
  "tools",
] as const;
export const mcpFields = ["transport", "activatable"] as const;
export const toolFields = [
  "name",
  "title",
  "tier",
  "description",
  "keywords",
  "examples",
  "input_schema",
  "undo",
] as const;
export const undoFields = ["tool", "map"] as const;
