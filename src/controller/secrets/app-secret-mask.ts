import type { AppSpec } from "../../resources/app-spec.ts";
import type { Store } from "../../store/store.ts";
import { listReferencedSecrets } from "./secret-names.ts";

/** Shorter values are words that stand anywhere; to hide them would say more than it hides. */
const SECRET_LENGTH_MIN = 4;
/** One line of a key or a file: shorter ones are its punctuation. */
const SECRET_LINE_LENGTH_MIN = 8;

export type SecretMask = (text: string) => string;

/**
 * Hides the values of an App's Secrets in what its containers, its probes and the engine say, before
 * that gets into a status or an event. A person who may read the App's log sees it there.
 */
export function createSecretMask(
  store: Pick<Store, "secrets">,
  specs: readonly AppSpec[]): SecretMask {
  const names = new Set(specs.flatMap((spec) => listReferencedSecrets(spec)));
  return createValueMask(
    [...names].flatMap((name) => Object.values(store.secrets.reveal(name) ?? {})),
  );
}

/** Hides these values, and each line of those that have several: logs come line by line. */
export function createValueMask(values: readonly string[]): SecretMask {
  const hidden = new Set<string>();
  for (const value of values) {
    if (value.length >= SECRET_LENGTH_MIN) hidden.add(value);
    for (const line of value.includes("\n") ? value.split("\n") : [])
      if (line.trim().length >= SECRET_LINE_LENGTH_MIN) hidden.add(line.trim());
  }
  // The longest first: one may be the beginning of another.
  const sorted = [...hidden].toSorted((a, b) => b.length - a.length);
  return (text) => sorted.reduce((rest, value) => rest.replaceAll(value, "(secret)"), text);
}
