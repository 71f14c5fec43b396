import { digestOf } from "../../../base/canonical.ts";
import { suggestion } from "../../../base/nearest.ts";
import type { ToolDeclaration } from "../manifest.ts";
import type { JsonObject, Tier } from "../port.ts";
import { type Faults, isObject, kindOf, own, warnOfUnknownFields } from "./faults.ts";
import { checkInputSchema } from "./input-schema.ts";
import { pointerBelow } from "./json-pointer.ts";
import {
  DESCRIPTION_CHARS_MAX,
  NAME_CHARS_MAX,
  tiers,
  toolFields,
  toolNamePattern,
} from "./manifest-format.ts";
import { readUndo } from "./read-undo.ts";
import { readShownText } from "./shown-text.ts";

/** A tool's declaration, without its undo's being checked against the others; undefined where it is none. */
export function readTool(
  value: unknown,
  pointer: string,
  faults: Faults,
): ToolDeclaration | undefined {
  if (!isObject(value)) {
    faults.error(pointer, `must be an object that declares a tool, not ${kindOf(value)}`);
    return undefined;
  }
  warnOfUnknownFields(value, toolFields, pointer, faults);
  const name = readName(value, pointer, faults);
  const title = readTitle(value, pointer, faults);
  const tier = readTier(value, pointer, faults);
  const description = readDescription(value, pointer, faults);
  const inputSchema = readSchema(value, pointer, faults);
  const undo = readUndo(own(value, "undo"), pointerBelow(pointer, "undo"), faults);
  if (name === undefined) return undefined;
  return {
    name,
    title: title ?? name,
    tier,
    description,
    inputSchema,
    undo,
    digest: digestOf(value),
  };
}

function readName(tool: JsonObject, pointer: string, faults: Faults): string | undefined {
  const name = own(tool, "name");
  if (typeof name === "string" && toolNamePattern.test(name)) return name;
  faults.error(
    pointerBelow(pointer, "name"),
    `must be 1 to 128 letters, digits, "_", "." and "-", not ${kindOf(name)}`,
  );
  return undefined;
}

function readTitle(tool: JsonObject, pointer: string, faults: Faults): string | undefined {
  const title = own(tool, "title");
  if (title === undefined) return undefined;
  const rules = { charsMax: NAME_CHARS_MAX, isMultiline: false };
  return readShownText(title, pointerBelow(pointer, "title"), rules, faults);
}

/** What nobody has called harmless is asked for as if it were not. */
function readTier(tool: JsonObject, pointer: string, faults: Faults): Tier {
  const tier = own(tool, "tier");
  const known = tiers.find((name) => name === tier);
  if (known !== undefined) return known;
  const at = pointerBelow(pointer, "tier");
  if (tier === undefined) {
    faults.warning(at, "is missing, so the tool counts as destructive");
    return "destructive";
  }
  const near = typeof tier === "string" ? suggestion(tier, tiers) : "";
  faults.error(at, `must be "read", "write" or "destructive", not ${kindOf(tier)}${near}`);
  return "destructive";
}

function readDescription(tool: JsonObject, pointer: string, faults: Faults): string {
  const description = own(tool, "description");
  const at = pointerBelow(pointer, "description");
  if (description === undefined || description === "") {
    faults.warning(at, "is missing: people decide by it, and the tool is found by it");
    return "";
  }
  const rules = { charsMax: DESCRIPTION_CHARS_MAX, isMultiline: true };
  return readShownText(description, at, rules, faults) ?? "";
}

function readSchema(tool: JsonObject, pointer: string, faults: Faults): JsonObject {
  const schema = own(tool, "input_schema");
  const at = pointerBelow(pointer, "input_schema");
  if (isObject(schema)) {
    checkInputSchema(schema, at, faults);
    return schema;
  }
  const hint = 'for a tool without arguments {"type": "object", "additionalProperties": false}';
  faults.error(at, `must be a JSON Schema, not ${kindOf(schema)}; ${hint}`);
  return { type: "object" };
}
