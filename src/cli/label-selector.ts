import { UsageError } from "./cli-errors.ts";

/** Requirements on labels, all of which must hold: a label equals a value, differs from it, exists or is absent. */
export type Selector = readonly {
  readonly key: string;
  readonly operator: "=" | "!=" | "exists" | "absent";
  readonly value: string;
}[];

/** Parses label selectors in the syntax of kubectl: `team=web,tier!=db,public,!internal`. */
export function parseSelector(texts: readonly string[]): Selector {
  return texts
    .flatMap((text) => text.split(","))
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map((part) => {
      const match = /^(!?)([A-Za-z0-9./_-]+)(?:\s*(!=|==?)\s*(.*))?$/.exec(part);
      const [, not, key = "", sign, value = ""] = match ?? [];
      if (!match || (not === "!" && sign !== undefined))
        throw new UsageError(
          `"${part}" is not a label selector`,
          "write it as team=web, tier!=db, public or !internal",
        );
      if (sign === undefined) return { key, operator: not === "!" ? "absent" : "exists", value };
      return { key, operator: sign === "!=" ? "!=" : "=", value };
    });
}

export function matchesSelector(
  selector: Selector,
  labels: Readonly<Record<string, string>>,
): boolean {
  return selector.every(({ key, operator, value }) => {
    const present = Object.hasOwn(labels, key);
    if (operator === "exists") return present;
    if (operator === "absent") return !present;
    return operator === "=" ? labels[key] === value : labels[key] !== value;
  });
}
