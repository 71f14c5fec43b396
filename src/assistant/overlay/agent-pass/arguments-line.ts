import type { JsonObject } from "../../agent/port.ts";
import { shownLine } from "./shown-text.ts";

const PROPERTIES_MAX = 16;
const WORDS_CHARS_MAX = 80;

/** The arguments of a tool in one line: `Arguments: title (string), body (string, optional): Text in Markdown`. */
export function argumentsLine(schema: JsonObject): string {
  const properties = Object.entries(objectOf(schema["properties"]));
  if (properties.length === 0) return "No arguments.";
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const told = properties
    .slice(0, PROPERTIES_MAX)
    .map(([name, property]) => argument(name, objectOf(property), required.includes(name)));
  const more = properties.length > PROPERTIES_MAX ? "; and others" : "";
  return `Arguments: ${told.join("; ")}${more}`;
}

function argument(name: string, property: JsonObject, isRequired: boolean): string {
  const kind = kindOf(property);
  const notes = [...(kind === "" ? [] : [kind]), ...(isRequired ? [] : ["optional"])];
  const words = property["description"] ?? property["title"];
  const said = typeof words === "string" ? `: ${shownLine(words, WORDS_CHARS_MAX)}` : "";
  const noted = notes.length > 0 ? ` (${notes.join(", ")})` : "";
  return `${shownLine(name, WORDS_CHARS_MAX)}${noted}${said}`;
}

function kindOf(property: JsonObject): string {
  const values = property["enum"];
  if (Array.isArray(values))
    return `one of ${shownLine(values.map((value) => JSON.stringify(value)).join(", "), WORDS_CHARS_MAX)}`;
  const type = property["type"];
  if (Array.isArray(type)) return shownLine(type.join(" or "), WORDS_CHARS_MAX);
  return typeof type === "string" ? shownLine(type, WORDS_CHARS_MAX) : "";
}

function objectOf(value: unknown): JsonObject {
  return typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value))
    : {};
}
