/** The words, patterns and bounds of a tool manifest: the reader and the editor schema both take them from here. */

export const MANIFEST_VERSION = 1;

/** Larger than any set of tools that a person could choose from. */
export const MANIFEST_BYTES_MAX = 1024 * 1024;
export const TOOLS_MAX = 500;
export const NAME_CHARS_MAX = 100;
export const DESCRIPTION_CHARS_MAX = 8000;

/** Reverse-domain, and a name on the bus: two elements or more, none of which begins with a digit. */
export const appIdPattern = /^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$/;
/** With `.json` it is the name of a file, which has at most 255 bytes. */
export const APP_ID_CHARS_MAX = 250;

/** As MCP has it. */
export const toolNamePattern = /^[A-Za-z0-9_.-]{1,128}$/;

/** `$input.title`, `$result.note.id`. */
export const undoExpressionPattern = /^\$(input|result)((?:\.[A-Za-z0-9_-]+)+)$/;

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
export const toolFields = ["name", "title", "tier", "description", "input_schema", "undo"] as const;
export const undoFields = ["tool", "map"] as const;
