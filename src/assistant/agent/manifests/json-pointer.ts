/** Appends segments to a JSON Pointer (RFC 6901); "" is the whole document. */
export function pointerBelow(base: string, ...segments: readonly (string | number)[]): string {
  return segments.reduce<string>(
    (path, segment) => `${path}/${String(segment).replaceAll("~", "~0").replaceAll("/", "~1")}`,
    base,
  );
}

/**
 * Returns the value that a JSON Pointer refers to; undefined if no such value exists. Inherited members do not count.
 */
export function resolvePointer(document: unknown, pointer: string): unknown {
  let value = document;
  for (const raw of pointer.split("/").slice(1)) {
    const segment = raw.replaceAll("~1", "/").replaceAll("~0", "~");
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, segment)) {
      return undefined;
    }
    value = Reflect.get(value, segment);
  }
  return value;
}
