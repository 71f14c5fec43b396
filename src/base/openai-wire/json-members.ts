/** Returns an own member of JSON from another process; undefined if `value` is not an object or lacks the member. */
export function getMember(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
}

export function getStringMember(value: unknown, name: string): string | undefined {
  const found = getMember(value, name);
  return typeof found === "string" ? found : undefined;
}

export function getArrayMember(value: unknown, name: string): readonly unknown[] | undefined {
  const found = getMember(value, name);
  return Array.isArray(found) ? found : undefined;
}

/** Returns a member that is an integer of 0 or more; undefined for any other value. */
export function getCountMember(value: unknown, name: string): number | undefined {
  const found = getMember(value, name);
  return typeof found === "number" && Number.isSafeInteger(found) && found >= 0 ? found : undefined;
}
