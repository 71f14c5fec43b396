import type { Tier } from "./port.ts";

/**
 * Decides if a tool call may run without confirmation. All rules are pure functions in this file, so that the table
 * can be read in one place. A provenance chain lists what led to a call as labels `kind[:detail]`: first those that
 * the requester claims, then those that the bus observed itself.
 */

/** Label kinds that are trusted with any detail. Every other kind is untrusted, including the empty one. */
export const trustedProvenance: readonly string[] = ["user", "system"];

export type Trust =
  /** The value `trusted` means that every label of the provenance chain is of a trusted kind. */
  | "trusted"
  /** The value `untrusted` means that at least one label of the chain is of an untrusted kind. */
  | "untrusted"
  /** The chain is empty. */
  | "unknown";

export interface PolicyDecision {
  readonly trust: Trust;
  /** The tier that applies to this call: the tool's tier, possibly raised because of its provenance chain. */
  readonly effective: Tier;
  /**
   * The value `run` means that the call runs at once. With any other value, the call waits for the user's confirmation.
   */
  readonly disposition: "run" | "confirm-chip" | "confirm-modal";
  /** Milliseconds that the user must hold the button, to prevent accidental clicks; 0 means that a click is enough. */
  readonly holdMs: number;
}

/** Hold time for an irreversible call with an untrusted chain. */
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

/** Compares the kind exactly: `User`, ` user` and `users` are unknown kinds. */
function isTrustedLabel(label: string): boolean {
  const [kind = ""] = label.split(":", 1);
  return trustedProvenance.includes(kind);
}

/**
 * Returns the chain that the policy applies to: the claimed labels plus what the bus observed. The claimed chain is
 * never shortened. A sandboxed program cannot act as the user, whatever it claims.
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

/** The maximum number of labels in a claimed chain. A chain must be short, because the user reads it. */
const LABELS_MAX = 32;
const LABEL_BYTES_MAX = 128;

/**
 * Returns the reason why a claimed chain is refused; undefined if it is accepted. A chain that is too long is
 * refused, not cut, because the missing label could be the untrusted one.
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
