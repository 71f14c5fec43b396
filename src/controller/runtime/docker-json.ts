/** Readers of the engine's JSON. A value of an unexpected type counts as absent. */

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Returns the value at the end of a path of keys; undefined if there is none. */
export function getValueAt(value: unknown, ...path: readonly string[]): unknown {
  let here = value;
  for (const key of path) here = isRecord(here) ? here[key] : undefined;
  return here;
}

export function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const found = getValueAt(value, ...path);
  return typeof found === "string" ? found : undefined;
}

export function numberAt(value: unknown, ...path: readonly string[]): number | undefined {
  const found = getValueAt(value, ...path);
  return typeof found === "number" ? found : undefined;
}

/** Returns the text values of a map, such as labels; an engine writes null for an empty one. */
export function textsAt(value: unknown, ...path: readonly string[]): Record<string, string> {
  const found = getValueAt(value, ...path);
  const texts: Record<string, string> = {};
  if (!isRecord(found)) return texts;
  for (const [key, item] of Object.entries(found)) if (typeof item === "string") texts[key] = item;
  return texts;
}

/** Returns the code of a system error, such as ECONNREFUSED. */
export function getErrorCode(error: unknown): string | undefined {
  return textAt(error, "code");
}
