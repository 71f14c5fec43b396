/** Looking into JSON that another process wrote: what is not as expected is undefined. */
export function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
}

export function textMember(value: unknown, name: string): string | undefined {
  const found = member(value, name);
  return typeof found === "string" ? found : undefined;
}

export function listMember(value: unknown, name: string): readonly unknown[] | undefined {
  const found = member(value, name);
  return Array.isArray(found) ? found : undefined;
}

/** A whole number, 0 or more. */
export function countMember(value: unknown, name: string): number | undefined {
  const found = member(value, name);
  return typeof found === "number" && Number.isSafeInteger(found) && found >= 0 ? found : undefined;
}
