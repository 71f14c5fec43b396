import { BerthError } from "../../../base/errors.ts";
import { getOwn, isObject } from "../../../base/json.ts";
import {
  InvalidJsonError,
  parseStrictJson,
  type StrictJsonOptions,
} from "../../../base/strict-json.ts";
import type { JsonObject } from "../port.ts";
import type { AppManifest, ManifestFault, ToolDeclaration } from "../tool-manifest.ts";
import { checkInputSchema } from "./check-input-schema.ts";
import { checkUndo } from "./check-undo.ts";
import { pointerBelow } from "./json-pointer.ts";
import {
  describeValue,
  FaultCollector,
  quoteValue,
  warnAboutUnknownFields,
} from "./manifest-faults.ts";
import {
  APP_ID_CHARS_MAX,
  appIdPattern,
  DESCRIPTION_CHARS_MAX,
  MANIFEST_BYTES_MAX,
  MANIFEST_VERSION,
  manifestFields,
  mcpFields,
  NAME_CHARS_MAX,
  TOOLS_MAX,
} from "./manifest-format.ts";
import { readDisplayText } from "./read-display-text.ts";
import { readTool, type SchemaCheck } from "./read-tool.ts";

export interface ParsedManifest {
  /** The manifest; undefined if it has any error, because a manifest is never used in part. */
  readonly manifest: AppManifest | undefined;
  /** The manifest's app id if the id is valid, even if other parts of the manifest are not. */
  readonly appId: string | undefined;
  /** Every tool that could be read, even from a rejected manifest. */
  readonly tools: readonly ToolDeclaration[];
  readonly faults: readonly ManifestFault[];
  /** True if the text is not valid JSON, perhaps because it is still being written. */
  readonly isIncomplete: boolean;
}

export const manifestJsonRules: StrictJsonOptions = {
  depthMax: 64,
  forbiddenKeys: new Set(["__proto__"]),
  subject: "the file",
};

/**
 * Parses the text of a manifest. `expectedAppId` is the file name without its extension. Never throws: the result
 * contains the faults of an invalid text.
 */
export function parseManifest(
  bytes: Uint8Array,
  expectedAppId: string | undefined,
): ParsedManifest {
  if (bytes.length > MANIFEST_BYTES_MAX) return rejectText("the file is larger than 1 MiB", false);
  let document: unknown;
  try {
    document = parseStrictJson(bytes, manifestJsonRules);
  } catch (error) {
    if (!(error instanceof InvalidJsonError)) throw error;
    return rejectText(error.message, true);
  }
  if (document === undefined) return rejectText("the file is empty", true);
  return readToolManifest(document, expectedAppId);
}

/**
 * Parses a manifest that ships with Berth; throws BerthError (`internal`) if the manifest has an error. The schemas of
 * its tools are not checked here, because the check would compile the meta-schema of JSON Schema at every start.
 * Berth's tests check them.
 */
export function parseBuiltInManifest(document: object): AppManifest {
  const { manifest, faults } = readToolManifest(document, undefined, () => {});
  if (manifest) return manifest;
  const first = faults.find(({ severity }) => severity === "error");
  throw new BerthError(
    "internal",
    `a built-in manifest is invalid: ${first?.pointer ?? ""} ${first?.message ?? ""}`,
  );
}

/** Reads a manifest that is already parsed as JSON. */
export function readToolManifest(
  document: unknown,
  expectedAppId: string | undefined,
  checkSchema: SchemaCheck = checkInputSchema,
): ParsedManifest {
  const faults = new FaultCollector();
  if (!isObject(document)) {
    faults.error("", `a manifest must be an object, not ${describeValue(document)}`);
    return { ...emptyManifest, faults: faults.list() };
  }
  warnAboutUnknownFields(document, manifestFields, "", faults);
  checkVersion(document, faults);
  const appId = readAppId(document, expectedAppId, faults);
  const name = readText(document, "name", { charsMax: NAME_CHARS_MAX, isMultiline: false }, faults);
  const rules = { charsMax: DESCRIPTION_CHARS_MAX, isMultiline: true };
  const description = readText(document, "description", rules, faults);
  const isActivatable = readMcp(getOwn(document, "mcp"), faults);
  const tools = readTools(getOwn(document, "tools"), faults, checkSchema);
  const isGood = appId !== undefined && faults.errorCount === 0;
  return {
    manifest: isGood
      ? {
          appId,
          name: name ?? appId,
          ...(description !== undefined && { description }),
          isActivatable,
          tools,
        }
      : undefined,
    appId,
    tools,
    faults: faults.list(),
    isIncomplete: false,
  };
}

const emptyManifest = {
  manifest: undefined,
  appId: undefined,
  tools: [],
  isIncomplete: false,
} as const;

function rejectText(message: string, isIncomplete: boolean): ParsedManifest {
  return {
    ...emptyManifest,
    faults: [{ pointer: "", message, severity: "error" }],
    isIncomplete: isIncomplete,
  };
}

function checkVersion(document: JsonObject, faults: FaultCollector): void {
  const version = getOwn(document, "svc_manifest");
  if (version === MANIFEST_VERSION) return;
  const isNewer = typeof version === "number" && version > MANIFEST_VERSION;
  faults.error(
    "/svc_manifest",
    isNewer
      ? `version ${version} is too new: this Berth reads version ${MANIFEST_VERSION}`
      : `must be ${MANIFEST_VERSION}, not ${describeValue(version)}`,
  );
}

/**
 * The maximum length of the socket's file name: a socket's path, which begins with the runtime directory, has at most
 * 107 bytes.
 */
const SOCKET_NAME_CHARS = 70;

function readAppId(
  document: JsonObject,
  expected: string | undefined,
  faults: FaultCollector,
): string | undefined {
  const appId = getOwn(document, "app_id");
  if (typeof appId !== "string" || !appIdPattern.test(appId) || appId.length > APP_ID_CHARS_MAX) {
    faults.error(
      "/app_id",
      `must be a reverse-domain name such as "org.example.Notes", not ${describeValue(appId)}`,
    );
    return undefined;
  }
  if (expected !== undefined && appId !== expected) {
    faults.error(
      "/app_id",
      `is ${quoteValue(appId)}, so the file must be named ${quoteValue(`${appId}.json`)}`,
    );
  }
  if (appId.length > SOCKET_NAME_CHARS) {
    faults.warning("/app_id", "is so long that the path of the app's socket may not fit");
  }
  return appId;
}

function readText(
  document: JsonObject,
  field: string,
  rules: Parameters<typeof readDisplayText>[2],
  faults: FaultCollector,
): string | undefined {
  const value = getOwn(document, field);
  return value === undefined ? undefined : readDisplayText(value, `/${field}`, rules, faults);
}

function readMcp(value: unknown, faults: FaultCollector): boolean {
  if (!isObject(value)) {
    faults.error("/mcp", `must be an object with "transport": "unix", not ${describeValue(value)}`);
    return false;
  }
  warnAboutUnknownFields(value, mcpFields, "/mcp", faults);
  const transport = getOwn(value, "transport");
  if (transport !== "unix") {
    faults.error("/mcp/transport", `must be "unix", not ${describeValue(transport)}`);
  }
  const activatable = getOwn(value, "activatable") ?? false;
  if (typeof activatable !== "boolean") {
    faults.error("/mcp/activatable", `must be true or false, not ${describeValue(activatable)}`);
  }
  return activatable === true;
}

function readTools(
  value: unknown,
  faults: FaultCollector,
  checkSchema: SchemaCheck,
): readonly ToolDeclaration[] {
  if (!Array.isArray(value)) {
    faults.error("/tools", `must be a list of tools, not ${describeValue(value)}`);
    return [];
  }
  if (value.length === 0) faults.warning("/tools", "is empty: the app offers no tools");
  if (value.length > TOOLS_MAX) {
    faults.error("/tools", `has ${value.length} tools; at most ${TOOLS_MAX} are allowed`);
    return [];
  }
  const tools = new Map<string, ToolDeclaration>();
  const pointers = new Map<string, string>();
  for (const [index, item] of value.entries()) {
    const pointer = pointerBelow("/tools", index);
    const tool = readTool(item, pointer, faults, checkSchema);
    if (tool === undefined) continue;
    const first = pointers.get(tool.name);
    if (first === undefined) {
      tools.set(tool.name, tool);
      pointers.set(tool.name, pointer);
    } else {
      faults.error(
        pointerBelow(pointer, "name"),
        `${quoteValue(tool.name)} is already declared at ${first}`,
      );
    }
  }
  for (const tool of tools.values()) {
    const pointer = pointerBelow(pointers.get(tool.name) ?? "", "undo");
    if (tool.undo) checkUndo(tool, tool.undo, tools, pointer, faults);
  }
  return [...tools.values()];
}
