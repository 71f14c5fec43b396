import type { Tier } from "./port.ts";

/**
 * Who may have a tool called without being asked. Pure, and all in this file, so that it can be read as the
 * table that it is. A provenance chain says what led to a call: labels `kind[:detail]`, the requester's own
 * first, then what the bus saw itself.
 */

/** The kinds of label that are trusted, whatever their detail; every other kind is not, nor is "". */
export const trustedProvenance: readonly string[] = ["user", "system"];

export type Trust =
  /** Every label is of a trusted kind. */
  | "trusted"
  /** At least one is not. */
  | "untrusted"
  /** Nobody has said anything. */
  | "unknown";

export interface PolicyDecision {
  readonly trust: Trust;
  /** What the tool's tier comes to for this chain. */
  readonly effective: Tier;
  /** run: at once. The others wait for a person. */
  readonly disposition: "run" | "confirm-chip" | "confirm-modal";
  /** How long the button has to be held, so that nobody clicks it in passing; 0: a click. */
  readonly holdMs: number;
}

/** How long a person holds a button for what cannot be taken back and comes from who knows where. */
const HOLD_MS = 1_500;

/** From the weakest to the strongest, in each row and in each column: no cell is weaker than its neighbours before it. */
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

/** By its kind, letter by letter: `User`, ` user` and `users` are kinds that nobody knows. */
function isTrustedLabel(label: string): boolean {
  const [kind = ""] = label.split(":", 1);
  return trustedProvenance.includes(kind);
}

/**
 * The chain that decides: the claim, extended by what the bus saw, and never shortened. A sandboxed
 * program cannot speak for the user, whatever it claims.
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

/** A chain is for a person to read. */
const LABELS_MAX = 32;
const LABEL_BYTES_MAX = 128;

/**
 * Why a claimed chain is not taken; undefined: it is. One that is too long is refused and never cut: the
 * label that was left out could have been the one that mattered.
 */
export function findChainProblem(claimed: readonly string[] | undefined): string | undefined {
  if (claimed === undefined) return undefined;
  if (claimed.length > LABELS_MAX)
    return `the provenance has ${claimed.length} labels, and may have ${LABELS_MAX}`;
  const long = claimed.findIndex((label) => Buffer.byteLength(label) > LABEL_BYTES_MAX);
  return long === -1
    ? undefined
    : `label ${long + 1} of the provenance is longer than ${LABEL_BYTES_MAX} bytes`;
}
