import { NAME_LENGTH_MAX } from "../resources/field-schemas.ts";

/** A DNS label like `text` that is none of `taken`; undefined where nothing of it can be kept. */
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

/** The name of each service's App; those that are labels already keep theirs. */
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
