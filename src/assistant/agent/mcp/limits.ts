/** What an app may take of the daemon, in bytes, milliseconds and pieces. */
export interface McpLimits {
  /** Of one line, without its end. A longer one closes the connection. */
  readonly frameBytesMax: number;
  /** What may wait to be written to an app that does not read. */
  readonly outgoingBytesMax: number;
  readonly callMs: number;
  /** Of `tools/list`, with all its pages. */
  readonly listMs: number;
  /** For the answer to `server/discover`; silence means the era before it. */
  readonly probeMs: number;
  /** For the answer to `initialize`, and for the subscription to changes. */
  readonly handshakeMs: number;
  /** From the wish to start an app to a socket that takes connections. */
  readonly activationMs: number;
  /** Without a call; then the connection is closed, and opened again on demand. */
  readonly idleMs: number;
  readonly callsMax: number;
  readonly pagesMax: number;
  readonly toolsMax: number;
  /** Content blocks of one result. */
  readonly blocksMax: number;
  /** Notifications, requests and answers that nobody waits for, in a second; and at once. */
  readonly unaskedPerSecond: number;
  readonly unaskedBurst: number;
  /** Failures in a row after which an app is left alone for `backoffMs`, doubled each time. */
  readonly failuresFree: number;
  readonly backoffMs: number;
  readonly backoffMsMax: number;
}

const MIB = 1024 * 1024;

export const defaultLimits: McpLimits = {
  frameBytesMax: 4 * MIB,
  // A few calls at their largest: arguments are far smaller than results.
  outgoingBytesMax: 8 * MIB,
  callMs: 60_000,
  listMs: 10_000,
  // An app that was only just started, on a busy machine, answers within one.
  probeMs: 3_000,
  handshakeMs: 10_000,
  activationMs: 10_000,
  // Longer than a conversation pauses, shorter than an app should be kept from ending itself.
  idleMs: 5 * 60_000,
  callsMax: 32,
  pagesMax: 64,
  toolsMax: 1_000,
  blocksMax: 1_000,
  unaskedPerSecond: 200,
  unaskedBurst: 1_000,
  failuresFree: 3,
  backoffMs: 1_000,
  backoffMsMax: 30_000,
};
