import type { Tier } from "./port.ts";

/**
 * Decides if a tool call may run without confirmation. `policyTable` has all decisions; the functions of this file only
 * compute its row and column. A provenance chain lists what led to a call as labels `kind[:detail]`: first those that
 * the requester claims, then those that the bus observed itself.
 */

/**
 * The kinds of provenance labels that are trusted, whatever detail follows the kind. Every other kind is untrusted,
 * including the empty one.
 */
export const trustedProvenance: readonly string[] = ["user", "system"];

export type Trust =
  /** The call is `trusted` if every label of its provenance chain is of a trusted kind. */
  | "trusted"
  /** The call is `untrusted` if at least one label of its provenance chain is of an untrusted kind. */
  | "untrusted"
  /** The provenance chain of the call is empty. */
  | "unknown";

export interface PolicyDecision {
  readonly trust: Trust;
  /** The tier that applies to this call: the tool's tier, possibly raised because of its provenance chain. */
  readonly effective: Tier;
  /**
   * The value `run` means that the call runs at once. With any other value, the call waits for the user's confirmation.
   */
  readonly disposition: "run" | "confirm-chip" | "confirm-modal";
  /**
   * The milliseconds for which the user must hold the confirm button, to prevent accidental clicks; 0 means that a
   * click is enough.
   */
  readonly holdMs: number;
}

/**
 * The time for which the user must hold the confirm button for a destructive call whose provenance chain is untrusted.
 */
const HOLD_MS = 1_500;

/**
 * The decision for each combination of tier and trust. Each row and column is ordered from weak to strong: no cell is
 * weaker than a cell before it.
 */
const policyTable: Readonly<Record<Tier, Readonly<Record<Trust, Omit<PolicyDecision, "trust">>>>> =
  {
    read: {
      trusted: { effective: "read", disposition: "run", holdMs: 0 },
      unknown: { effective: "write", disposition: "confirm-chip", holdMs: 0 },
      untrusted: { effective: "write", disposition: "confirm-chip", holdMs: 0 },
    },
    write: {
      trusted: { effective: "write", disposition: "confirm-chip", holdMs: 0 },
      unknown: { effective: "destructive", disposition: "confirm-modal", holdMs: 0 },
      untrusted: { effective: "destructive", disposition: "confirm-modal", holdMs: 0 },
    },
    destructive: {
      trusted: { effective: "destructive", disposition: "confirm-modal", holdMs: 0 },
      unknown: { effective: "destructive", disposition: "confirm-modal", holdMs: 0 },
      untrusted: { effective: "destructive", disposition: "confirm-modal", holdMs: HOLD_MS },
    },
  };

export function decideCall(tier: Tier, chain: readonly string[]): PolicyDecision {
  const trust = assessTrust(chain);
  return { trust, ...policyTable[tier][trust] };
}

export function assessTrust(chain: readonly string[]): Trust {
  if (chain.length === 0) return "unknown";
  return chain.every(isTrustedLabel) ? "trusted" : "untrusted";
}

/**
 * Returns true if the kind of the provenance label, which is the text before the colon, is trusted. The comparison is
 * exact: `User`, ` user` and `users` are not trusted.
 */
function isTrustedLabel(label: string): boolean {
  const [kind = ""] = label.split(":", 1);
  return trustedProvenance.includes(kind);
}

/**
 * Returns the provenance chain that the policy applies to: the labels that the requester claims and, if the requester
 * is a sandboxed app, that app's own label. Claimed labels are never removed. So a sandboxed app cannot act as the
 * user, whatever it claims.
 */
export function extendChain(
  claimed: readonly string[] | undefined,
  sandboxedApp: string | undefined,
): readonly string[] {
  const chain = claimed ?? [];
  if (sandboxedApp === undefined) return chain;
  const observed = `app:${sandboxedApp}`;
  return chain.includes(observed) ? chain : [...chain, observed];
}

/**
 * The maximum number of provenance labels that a requester may claim, because the user reads them before a
 * confirmation.
 */
const LABELS_MAX = 32;
const LABEL_BYTES_MAX = 128;

/**
 * Returns the reason why the provenance chain that a requester claims is refused; undefined if it is accepted. A chain
 * that is too long is refused and not cut, because a cut could remove an untrusted label.
 */
export function findChainProblem(claimed: readonly string[] | undefined): string | undefined {
  if (claimed === undefined) return undefined;
  if (claimed.length > LABELS_MAX)
    return `the provenance has ${claimed.length} labels; at most ${LABELS_MAX} are allowed`;
  const long = claimed.findIndex((label) => Buffer.byteLength(label) > LABEL_BYTES_MAX);
  return long === -1
    ? undefined
    : `label ${long + 1} of the provenance is longer than ${LABEL_BYTES_MAX} bytes`;
}
