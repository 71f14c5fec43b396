/** The fields of parsed JSON or TOML, whose types are unknown. */
export type ParsedFields = Readonly<Record<string, unknown>>;

export function isParsedFields(value: unknown): value is ParsedFields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the mapping under a key; empty if there is none. */
export function getFields(fields: ParsedFields, key: string): ParsedFields {
  const value = fields[key];
  return isParsedFields(value) ? value : {};
}

/** Returns the value of a key if the value is a text; undefined if it has another type or is missing. */
export function getText(fields: ParsedFields, key: string): string | undefined {
  const value = fields[key];
  return typeof value === "string" ? value : undefined;
}

export function getTexts(fields: ParsedFields, key: string): readonly string[] {
  const value = fields[key];
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}
