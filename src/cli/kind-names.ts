import { suggestion } from "../base/nearest.ts";
import type { Kind } from "../resources/kinds.ts";
import { UsageError } from "./failure.ts";

/** As in `plurals` of the resources, which load every schema with them; a test compares the two. */
const wordsOf: Readonly<Record<Kind, { readonly plural: string; readonly short: string }>> = {
  App: { plural: "apps", short: "a" },
  Model: { plural: "models", short: "m" },
  Template: { plural: "templates", short: "tpl" },
  Secret: { plural: "secrets", short: "sec" },
};

/** Every word that means a kind, in lower case. */
export const kindWords: ReadonlyMap<string, Kind> = new Map(
  (["App", "Model", "Template", "Secret"] as const).flatMap((kind) =>
    [kind.toLowerCase(), wordsOf[kind].plural, wordsOf[kind].short].map((word): [string, Kind] => [
      word,
      kind,
    ]),
  ),
);

/** app, apps, App and a all mean App. Throws UsageError with the nearest word. */
function parseKind(word: string): Kind {
  const kind = kindOf(word);
  if (kind !== undefined) return kind;
  const known = Object.values(wordsOf).map(({ plural, short }) => `${plural} (${short})`);
  throw new UsageError(
    `there is no kind "${word}"${suggestion(word, kindWords.keys())}`,
    `kinds: ${known.join(", ")}`,
  );
}

export function kindOf(word: string): Kind | undefined {
  return kindWords.get(word.toLowerCase());
}

/** `app/hello`, as -o name prints it and as every verb that takes a name reads it. */
export function referenceOf(kind: string, name: string): string {
  return `${kind.toLowerCase()}/${name}`;
}

/**
 * What people write behind get, describe and delete: `app hello`, `app hello world`, `app/hello secret/db`.
 * A single bare word that is no kind is the name of an app where `bareIsApp` says so.
 */
export function parseReferences(
  words: readonly string[],
  bareIsApp = false,
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
  if (bareIsApp && (rest.length === 0 || kindOf(first) === undefined))
    return [{ kind: "App", names: [...words] }];
  return [{ kind: parseKind(first), names: rest }];
}

/** The name of an app, also where it is written as `app/hello`. */
export function appName(word: string): string {
  const [kind, name, ...rest] = word.split("/");
  if (name === undefined) return word;
  if (rest.length > 0 || name === "" || kindOf(kind ?? "") !== "App")
    throw new UsageError(`"${word}" does not name an app`, "write NAME or app/NAME");
  return name;
}
