import { type ConsentScope, consentScopes } from "../../../client/bus/remote-wire.ts";
import { UsageError } from "../../cli-errors.ts";

/** The arguments of `berth remote consent`. */
export const consentArguments = [...consentScopes, "all", "none", "on", "off"] as const;

export interface ConsentChange {
  readonly scope: ConsentScope;
  readonly isAllowed: boolean;
}

const example =
  "berth remote consent prompt on; several: berth remote consent prompt files on mail off";

/**
 * Parses scopes that are followed by `on` or `off`. `all` means all scopes, and `none` alone means `all off`.
 * Revocations are first in the result, so that they take effect before the other changes. Throws UsageError.
 */
export function parseConsentChanges(words: readonly string[]): readonly ConsentChange[] {
  if (words.length === 1 && words[0] === "none") return createChanges(consentScopes, false);
  const changes = new Map<ConsentScope, boolean>();
  let named: ConsentScope[] = [];
  for (const word of words) {
    const scope = consentScopes.find((name) => name === word);
    if (scope !== undefined) named.push(scope);
    else if (word === "all") named.push(...consentScopes);
    else if (word === "on" || word === "off") {
      if (named.length === 0)
        throw new UsageError(`"${word}" must follow a scope`, `write it as ${example}`);
      for (const { scope: each, isAllowed } of createChanges(named, word === "on")) {
        if ((changes.get(each) ?? isAllowed) !== isAllowed)
          throw new UsageError(`the arguments set "${each}" both on and off`);
        changes.set(each, isAllowed);
      }
      named = [];
    } else if (word === "none")
      throw new UsageError("`none` cannot be combined with other arguments: it revokes all scopes");
    else
      throw new UsageError(
        `"${word}" is not a scope`,
        `scopes are ${consentScopes.join(", ")}; ${example}`,
      );
  }
  if (named.length > 0)
    throw new UsageError(
      `\`on\` or \`off\` is missing after ${named.join(", ")}`,
      `write it as ${example}`,
    );
  return [...changes]
    .map(([scope, isAllowed]) => ({ scope, isAllowed }))
    .toSorted((left, right) => Number(left.isAllowed) - Number(right.isAllowed));
}

function createChanges(scopes: readonly ConsentScope[], isAllowed: boolean): ConsentChange[] {
  return scopes.map((scope) => ({ scope, isAllowed }));
}
