import { BerthError } from "../../base/errors.ts";

/** What a method answered as JSON. Throws `assistant_unreachable` for anything else. */
export function parsedAnswer(text: unknown): unknown {
  if (typeof text !== "string") throw notTheCompanion(undefined);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw notTheCompanion(error);
  }
}

export function notTheCompanion(cause: unknown): BerthError {
  return new BerthError("assistant_unreachable", "what answers on the bus answers something else", {
    hint: "a companion of another version may run: end it, and start `berth assistant --user`",
    cause,
  });
}

/** An own member of an object; undefined where there is no such thing. */
export function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
}

export function textField(value: unknown, name: string): string {
  const found = field(value, name);
  return typeof found === "string" ? found : "";
}

export function textOrUndefined(value: unknown, name: string): string | undefined {
  const found = field(value, name);
  return typeof found === "string" ? found : undefined;
}

export function numberOrUndefined(value: unknown, name: string): number | undefined {
  const found = field(value, name);
  return typeof found === "number" ? found : undefined;
}

export function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((text) => typeof text === "string") : [];
}

export function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
