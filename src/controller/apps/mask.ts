import type { AppSpec } from "../../resources/app.ts";
import type { Store } from "../../store/store.ts";
import { secretsOf } from "./inputs.ts";

/** Shorter values are words that stand anywhere; to hide them would say more than it hides. */
const SECRET_LENGTH_MIN = 4;

export type Mask = (text: string) => string;

/**
 * Hides the values of an App's Secrets in what its containers, its probes and the engine say, before
 * that gets into a status or an event. A person who may read the App's log sees it there.
 */
export function maskOf(store: Store, specs: readonly AppSpec[]): Mask {
  const values = new Set<string>();
  for (const name of new Set(specs.flatMap((spec) => secretsOf(spec)))) {
    for (const value of Object.values(store.secrets.reveal(name) ?? {}))
      if (value.length >= SECRET_LENGTH_MIN) values.add(value);
  }
  // The longest first: one may be the beginning of another.
  const sorted = [...values].toSorted((a, b) => b.length - a.length);
  return (text) => sorted.reduce((rest, value) => rest.replaceAll(value, "(secret)"), text);
}
