import { formatSuggestion } from "../base/spelling-suggestions.ts";
import type { Kind } from "../resources/kinds.ts";
import { UsageError } from "./cli-errors.ts";

/**
 * A copy of `plurals` in src/resources, because importing that module would load every schema. A test
 * compares the two.
 */
const kindWordForms: Readonly<Record<Kind, { readonly plural: string; readonly short: string }>> = {
  App: { plural: "apps", short: "a" },
  Model: { plural: "models", short: "m" },
  Template: { plural: "templates", short: "tpl" },
  Secret: { plural: "secrets", short: "sec" },
};

/** Every word that means a kind, in lower case. */
export const kindsByWord: ReadonlyMap<string, Kind> = new Map(
  (["App", "Model", "Template", "Secret"] as const).flatMap((kind) =>
    [kind.toLowerCase(), kindWordForms[kind].plural, kindWordForms[kind].short].map(
      (word): [string, Kind] => [word, kind],
    ),
  ),
);

/**
 * Parses a word for a kind, such as `app`, `apps`, `App` or `a`. Throws UsageError with a similar word if no kind has
 * this word.
 */
function parseKind(word: string): Kind {
  const kind = findKind(word);
  if (kind !== undefined) return kind;
  const known = Object.values(kindWordForms).map(({ plural, short }) => `${plural} (${short})`);
  throw new UsageError(
    `there is no kind "${word}"${formatSuggestion(word, kindsByWord.keys())}`,
    `kinds: ${known.join(", ")}; groups of apps: stacks`,
  );
}

export function findKind(word: string): Kind | undefined {
  return kindsByWord.get(word.toLowerCase());
}

/** Formats a reference as `app/hello`, which -o name prints and every verb with a name argument accepts. */
export function formatReference(kind: string, name: string): string {
  return `${kind.toLowerCase()}/${name}`;
}

/**
 * Parses the arguments of get, describe and delete: `app hello`, `app hello world`, `app/hello secret/db`. With
 * `isBareWordApp`, a word that is not a kind is the name of an app.
 */
export function parseReferences(
  words: readonly string[],
  isBareWordApp = false,
): { kind: Kind; names: string[] }[] {
  const [first, ...rest] = words;
  if (first === undefined) return [];
  if (words.some((word) => word.includes("/"))) {
    return words.map((word) => {
      const [kind, name, ...more] = word.split("/");
      if (!kind || !name || more.length > 0)
        throw new UsageError(`"${word}" is not KIND/NAME`, "write all of them as app/hello");
      return { kind: parseKind(kind), names: [name] };
    });
  }
  if (isBareWordApp && (rest.length === 0 || findKind(first) === undefined))
    return [{ kind: "App", names: [...words] }];
  return [{ kind: parseKind(first), names: rest }];
}

/** Parses the name of an app, which may also be written as `app/hello`. */
export function parseAppName(word: string): string {
  const [kind, name, ...rest] = word.split("/");
  if (name === undefined) return word;
  if (rest.length > 0 || name === "" || findKind(kind ?? "") !== "App")
    throw new UsageError(`"${word}" does not name an app`, "write NAME or app/NAME");
  return name;
}

/** Returns true for `stack` and `stacks`, which name stacks where a kind is expected. */
export function isStackWord(word: string | undefined): boolean {
  return /^stacks?$/i.test(word ?? "");
}
