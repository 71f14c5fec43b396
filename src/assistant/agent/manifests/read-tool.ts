import { hashJson } from "../../../base/canonical-json.ts";
import { getOwn, isObject } from "../../../base/json.ts";
import { formatSuggestion } from "../../../base/spelling-suggestions.ts";
import type { JsonObject, Tier } from "../port.ts";
import type { ToolDeclaration } from "../tool-manifest.ts";
import { pointerBelow } from "./json-pointer.ts";
import { describeValue, type FaultCollector, warnAboutUnknownFields } from "./manifest-faults.ts";
import {
  DESCRIPTION_CHARS_MAX,
  NAME_CHARS_MAX,
  tiers,
  toolFields,
  toolNamePattern,
} from "./manifest-format.ts";
import { readDisplayText } from "./read-display-text.ts";
import { readSearchTexts } from "./read-search-texts.ts";
import { readUndo } from "./read-undo.ts";

/**
 * Checks the schema of a tool's arguments and adds its faults to `faults`. `pointer` is the schema's JSON Pointer in
 * the manifest.
 */
export type SchemaCheck = (schema: JsonObject, pointer: string, faults: FaultCollector) => void;

/**
 * Reads a tool's declaration, without checking its undo against the other tools. Returns undefined if the tool has no
 * valid name.
 */
export function readTool(
  value: unknown,
  pointer: string,
  faults: FaultCollector,
  checkSchema: SchemaCheck,
): ToolDeclaration | undefined {
  if (!isObject(value)) {
    faults.error(pointer, `must be an object that declares a tool, not ${describeValue(value)}`);
    return undefined;
  }
  warnAboutUnknownFields(value, toolFields, pointer, faults);
  const name = readName(value, pointer, faults);
  const title = readTitle(value, pointer, faults);
  const tier = readTier(value, pointer, faults);
  const description = readDescription(value, pointer, faults);
  const keywords = readSearchTexts(value, "keywords", pointer, faults);
  const examples = readSearchTexts(value, "examples", pointer, faults);
  const inputSchema = readSchema(value, pointer, faults, checkSchema);
  const undo = readUndo(getOwn(value, "undo"), pointerBelow(pointer, "undo"), faults);
  if (name === undefined) return undefined;
  return {
    name,
    title: title ?? name,
    tier,
    description,
    keywords,
    examples,
    inputSchema,
    undo,
    digest: hashJson(value),
  };
}

function readName(tool: JsonObject, pointer: string, faults: FaultCollector): string | undefined {
  const name = getOwn(tool, "name");
  if (typeof name === "string" && toolNamePattern.test(name)) return name;
  faults.error(
    pointerBelow(pointer, "name"),
    `must be 1 to 128 letters, digits, "_", "." and "-", not ${describeValue(name)}`,
  );
  return undefined;
}

function readTitle(tool: JsonObject, pointer: string, faults: FaultCollector): string | undefined {
  const title = getOwn(tool, "title");
  if (title === undefined) return undefined;
  const rules = { charsMax: NAME_CHARS_MAX, isMultiline: false };
  return readDisplayText(title, pointerBelow(pointer, "title"), rules, faults);
}

/**
 * Reads the field `tier` of a tool. A tool without a valid tier counts as destructive, so that its calls always need
 * confirmation.
 */
function readTier(tool: JsonObject, pointer: string, faults: FaultCollector): Tier {
  const tier = getOwn(tool, "tier");
  const known = tiers.find((name) => name === tier);
  if (known !== undefined) return known;
  const at = pointerBelow(pointer, "tier");
  if (tier === undefined) {
    faults.warning(at, "is missing, so the tool counts as destructive");
    return "destructive";
  }
  const near = typeof tier === "string" ? formatSuggestion(tier, tiers) : "";
  faults.error(at, `must be "read", "write" or "destructive", not ${describeValue(tier)}${near}`);
  return "destructive";
}

function readDescription(tool: JsonObject, pointer: string, faults: FaultCollector): string {
  const description = getOwn(tool, "description");
  const at = pointerBelow(pointer, "description");
  if (description === undefined || description === "") {
    faults.warning(at, "is missing: people decide by it, and tool discovery searches it");
    return "";
  }
  const rules = { charsMax: DESCRIPTION_CHARS_MAX, isMultiline: true };
  return readDisplayText(description, at, rules, faults) ?? "";
}

function readSchema(
  tool: JsonObject,
  pointer: string,
  faults: FaultCollector,
  checkSchema: SchemaCheck,
): JsonObject {
  const schema = getOwn(tool, "input_schema");
  const at = pointerBelow(pointer, "input_schema");
  if (isObject(schema)) {
    checkSchema(schema, at, faults);
    return schema;
  }
  const hint = 'for a tool without arguments use {"type": "object", "additionalProperties": false}';
  faults.error(at, `must be a JSON Schema, not ${describeValue(schema)}; ${hint}`);
  return { type: "object" };
}
