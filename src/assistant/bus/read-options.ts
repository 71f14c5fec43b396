import { isDictionary } from "../../dbus/bus-values.ts";
import type { BusValue } from "../../dbus/port.ts";
import { AssistantError } from "../assistant-error.ts";

/** The options (an argument of type `a{sv}`) that a method accepts, as a map of names to D-Bus types. */
export type OptionTypes = Readonly<Record<string, keyof OptionValues>>;

interface OptionValues {
  readonly s: string;
  readonly b: boolean;
  readonly u: number;
  readonly t: bigint;
  readonly d: number;
  readonly as: readonly string[];
}

export type ParsedOptions<Types extends OptionTypes> = {
  readonly [Name in keyof Types]?: OptionValues[Types[Name]];
};

/**
 * Reads options by a table of names and types. Throws `invalid_request` for an option that is not in the table or has
 * another type; the error's `param` is the option's name. No option is ignored silently, because a misspelt option
 * would change the result.
 */
export function readOptions<Types extends OptionTypes>(
  types: Types,
  given: BusValue | undefined,
): ParsedOptions<Types> {
  const found: Record<string, BusValue> = {};
  for (const [name, { signature, value }] of isDictionary(given) ? given : []) {
    if (!Object.hasOwn(types, name)) {
      throw new AssistantError(
        "invalid_request",
        `there is no option ${quoteName(name)}; ${describeKnown(Object.keys(types))}`,
        { param: name },
      );
    }
    if (signature !== types[name]) {
      throw new AssistantError(
        "invalid_request",
        `the option ${quoteName(name)} has the type ${quoteName(signature)} and must have ${quoteName(types[name] ?? "")}`,
        { param: name },
      );
    }
    found[name] = value;
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each value is of the type that the table says
  return found as ParsedOptions<Types>;
}

function describeKnown(names: readonly string[]): string {
  return names.length > 0 ? `known options: ${names.join(", ")}` : "this method has no options";
}

function quoteName(text: string): string {
  return JSON.stringify(text.length > 64 ? `${text.slice(0, 63)}…` : text);
}
