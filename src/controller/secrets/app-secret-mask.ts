import type { AppSpec } from "../../resources/app-spec.ts";
import { listReferencedSecrets } from "../../resources/secret-names.ts";
import type { Store } from "../../store/store.ts";

/**
 * The minimum length of a masked value. Shorter values may be common words: masking them would damage every message and
 * reveal the value.
 */
const SECRET_LENGTH_MIN = 4;
/**
 * The minimum length of a line that is masked separately, if the secret has several lines, such as a private key.
 * Shorter lines, such as `}`, occur in many texts.
 */
const SECRET_LINE_LENGTH_MIN = 8;

export type SecretMask = (text: string) => string;

/**
 * Returns a function that masks the values of an App's Secrets in messages of its containers, its probes and the engine
 * before they are written to a status or an event. The log of the App is not masked, so users who may read the log can
 * see the values there.
 */
export function createSecretMask(
  store: Pick<Store, "secrets">,
  specs: readonly AppSpec[],
): SecretMask {
  const names = new Set(specs.flatMap((spec) => listReferencedSecrets(spec)));
  return createValueMask(
    [...names].flatMap((name) => Object.values(store.secrets.reveal(name) ?? {})),
  );
}

/**
 * Returns a mask for the given values. For a value with several lines, each line is masked too, because logs are read
 * line by line.
 */
export function createValueMask(values: readonly string[]): SecretMask {
  const hidden = new Set<string>();
  for (const value of values) {
    if (value.length >= SECRET_LENGTH_MIN) hidden.add(value);
    for (const line of value.includes("\n") ? value.split("\n") : [])
      if (line.trim().length >= SECRET_LINE_LENGTH_MIN) hidden.add(line.trim());
  }
  // The longest values are masked first, because one value may be the beginning of another.
  const sorted = [...hidden].toSorted((a, b) => b.length - a.length);
  return (text) => sorted.reduce((rest, value) => rest.replaceAll(value, "(secret)"), text);
}
