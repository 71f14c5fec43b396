import { NAME_LENGTH_MAX } from "../resources/field-schemas.ts";

/**
 * Returns a DNS label that is derived from `text` and is not in `taken`; undefined if `text` has no usable character.
 */
export function toDnsLabel(text: string, taken: readonly string[]): string | undefined {
  const plain = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, "-")
    .slice(0, NAME_LENGTH_MAX)
    .replaceAll(/^-+|-+$/g, "");
  if (plain === "") return undefined;
  for (let count = 1; ; count += 1) {
    const suffix = count === 1 ? "" : `-${count}`;
    const name = plain.slice(0, NAME_LENGTH_MAX - suffix.length).replace(/-+$/, "") + suffix;
    if (!taken.includes(name)) return name;
  }
}

/**
 * Assigns a name to the App of each service. Services whose names are valid labels are handled first, so that they
 * keep their names.
 */
export function assignAppNames(services: readonly string[], prefix: string): Map<string, string> {
  const names = new Map<string, string>();
  const isKept = (service: string) =>
    toDnsLabel(`${prefix}${service}`, []) === `${prefix}${service}`;
  const inOrder = [...services.filter(isKept), ...services.filter((service) => !isKept(service))];
  for (const service of inOrder) {
    const name = toDnsLabel(`${prefix}${service}`, [...names.values()]);
    if (name !== undefined) names.set(service, name);
  }
  return names;
}
