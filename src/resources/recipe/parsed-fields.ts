/** Fields of parsed JSON and TOML, which hold whatever somebody wrote. */
export type ParsedFields = Readonly<Record<string, unknown>>;

export function isParsedFields(value: unknown): value is ParsedFields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The mapping under a key; empty where there is none. */
export function getFields(fields: ParsedFields, key: string): ParsedFields {
  const value = fields[key];
  return isParsedFields(value) ? value : {};
}

/** The text under a key, where it is one. */
export function getText(fields: ParsedFields, key: string): string | undefined {
  const value = fields[key];
  return typeof value === "string" ? value : undefined;
}

export function getTexts(fields: ParsedFields, key: string): readonly string[] {
  const value = fields[key];
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}
