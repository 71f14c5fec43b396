import { NAME_LENGTH_MAX } from "../resources/field-schemas.ts";

/**
 * Returns a DNS label that is derived from `text` and is not in `taken`; undefined if `text` has no usable character.
 */
export function toDnsLabel(text: string, taken: readonly string[]): string | undefined {
  const plain = toPlainLabel(text).slice(0, NAME_LENGTH_MAX).replace(/-+$/, "");
  if (plain === "") return undefined;
  for (let count = 1; ; count += 1) {
    const suffix = count === 1 ? "" : `-${count}`;
    const name = plain.slice(0, NAME_LENGTH_MAX - suffix.length).replace(/-+$/, "") + suffix;
    if (!taken.includes(name)) return name;
  }
}

/** The name of the App of a service, or the reason why it has none. */
export type AssignedName = { readonly name: string } | { readonly problem: string };

/**
 * Assigns the name STACK-SERVICE to the App of each service, with characters that a name of an App cannot have replaced
 * by hyphens. A service gets no other name than this one, so that the name of its App never depends on the other
 * services: a name that is too long, or that two services would have, is a problem.
 */
export function assignAppNames(
  services: readonly string[],
  stack: string,
): ReadonlyMap<string, AssignedName> {
  const names = new Map(services.map((service) => [service, toPlainLabel(service)] as const));
  return new Map(
    services.map((service) => {
      const label = names.get(service) ?? "";
      const name = `${stack}-${label}`;
      const other = services.find((one) => one !== service && names.get(one) === label);
      return [
        service,
        label === ""
          ? { problem: "no app name can be derived from the name of this service" }
          : findProblem(name, other),
      ];
    }),
  );
}

function findProblem(name: string, other: string | undefined): AssignedName {
  if (name.length > NAME_LENGTH_MAX)
    return {
      problem: `the app of this service would be called ${name}, which has ${name.length} characters: at most ${NAME_LENGTH_MAX} are allowed`,
    };
  return other === undefined
    ? { name }
    : {
        problem: `the app of this service would be called ${name}, like the app of the service "${other}"`,
      };
}

function toPlainLabel(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, "-")
    .replaceAll(/^-+|-+$/g, "");
}
