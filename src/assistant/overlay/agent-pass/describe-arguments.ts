import type { JsonObject } from "../../agent/port.ts";
import { escapeLine } from "./escape-text.ts";

const PROPERTIES_MAX = 16;
const TEXT_CHARS_MAX = 80;

/** Describes a tool's arguments in one line: `Arguments: title (string), body (string, optional): Text in Markdown`. */
export function describeArguments(schema: JsonObject): string {
  const properties = Object.entries(toObject(schema["properties"]));
  if (properties.length === 0) return "No arguments.";
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const descriptions = properties
    .slice(0, PROPERTIES_MAX)
    .map(([name, property]) => describeArgument(name, toObject(property), required.includes(name)));
  const more = properties.length > PROPERTIES_MAX ? "; and others" : "";
  return `Arguments: ${descriptions.join("; ")}${more}`;
}

function describeArgument(name: string, property: JsonObject, isRequired: boolean): string {
  const kind = describeType(property);
  const notes = [...(kind === "" ? [] : [kind]), ...(isRequired ? [] : ["optional"])];
  const description = property["description"] ?? property["title"];
  const suffix =
    typeof description === "string" ? `: ${escapeLine(description, TEXT_CHARS_MAX)}` : "";
  const typeText = notes.length > 0 ? ` (${notes.join(", ")})` : "";
  return `${escapeLine(name, TEXT_CHARS_MAX)}${typeText}${suffix}`;
}

function describeType(property: JsonObject): string {
  const values = property["enum"];
  if (Array.isArray(values))
    return `one of ${escapeLine(values.map((value) => JSON.stringify(value)).join(", "), TEXT_CHARS_MAX)}`;
  const type = property["type"];
  if (Array.isArray(type)) return escapeLine(type.join(" or "), TEXT_CHARS_MAX);
  return typeof type === "string" ? escapeLine(type, TEXT_CHARS_MAX) : "";
}

function toObject(value: unknown): JsonObject {
  return typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value))
    : {};
}
