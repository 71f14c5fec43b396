/** What an app may take of the daemon, in bytes, milliseconds and pieces. */
export interface McpLimits {
  /** Of one line, without its end. A longer one closes the connection. */
  readonly frameBytesMax: number;
  /** What may wait to be written to an app that does not read. */
  readonly outgoingBytesMax: number;
  readonly callTimeoutMs: number;
  /** Of `tools/list`, with all its pages. */
  readonly listTimeoutMs: number;
  /** For the answer to `server/discover`; silence means the era before it. */
  readonly probeTimeoutMs: number;
  /** For the answer to `initialize`, and for the subscription to changes. */
  readonly handshakeTimeoutMs: number;
  /** From the wish to start an app to a socket that takes connections. */
  readonly activationTimeoutMs: number;
  /** Without a call; then the connection is closed, and opened again on demand. */
  readonly idleTimeoutMs: number;
  readonly callsMax: number;
  readonly pagesMax: number;
  readonly toolsMax: number;
  /** Content blocks of one result. */
  readonly blocksMax: number;
  /** Notifications, requests and answers that nobody waits for, in a second; and at once. */
  readonly unsolicitedPerSecond: number;
  readonly unsolicitedBurst: number;
  /** Failures in a row after which an app is left alone for `backoffMs`, doubled each time. */
  readonly failuresBeforeBackoff: number;
  readonly backoffMs: number;
  readonly backoffMsMax: number;
}

const MIB = 1024 * 1024;

export const defaultMcpLimits: McpLimits = {
  frameBytesMax: 4 * MIB,
  // A few calls at their largest: arguments are far smaller than results.
  outgoingBytesMax: 8 * MIB,
  callTimeoutMs: 60_000,
  listTimeoutMs: 10_000,
  // An app that was only just started, on a busy machine, answers within one.
  probeTimeoutMs: 3_000,
  handshakeTimeoutMs: 10_000,
  activationTimeoutMs: 10_000,
  // Longer than a conversation pauses, shorter than an app should be kept from ending itself.
  idleTimeoutMs: 5 * 60_000,
  callsMax: 32,
  pagesMax: 64,
  toolsMax: 1_000,
  blocksMax: 1_000,
  unsolicitedPerSecond: 200,
  unsolicitedBurst: 1_000,
  failuresBeforeBackoff: 3,
  backoffMs: 1_000,
  backoffMsMax: 30_000,
};
