import { BerthError } from "../../base/errors.ts";

/** Parses the JSON that a method returned. Throws `assistant_unreachable` if it is not JSON. */
export function parseAnswer(text: unknown): unknown {
  if (typeof text !== "string") throw unexpectedAnswer(undefined);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw unexpectedAnswer(error);
  }
}

export function unexpectedAnswer(cause: unknown): BerthError {
  return new BerthError(
    "assistant_unreachable",
    "the companion on the bus sent an unexpected answer",
    {
      hint: "the running companion may have another version: stop it, and start `berth assistant --user`",
      cause,
    },
  );
}

/** Returns an own property of an object; undefined if the object lacks it. */
export function getField(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
}

export function getText(value: unknown, name: string): string {
  const found = getField(value, name);
  return typeof found === "string" ? found : "";
}

export function getTextOrUndefined(value: unknown, name: string): string | undefined {
  const found = getField(value, name);
  return typeof found === "string" ? found : undefined;
}

export function getNumberOrUndefined(value: unknown, name: string): number | undefined {
  const found = getField(value, name);
  return typeof found === "number" ? found : undefined;
}

export function filterTexts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((text) => typeof text === "string") : [];
}

export function toItems(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
