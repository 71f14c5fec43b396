/** Limits on the daemon's resources per app, in bytes, milliseconds and counts. */
export interface McpLimits {
  /** Longest line, without its line end. A longer line closes the connection. */
  readonly frameBytesMax: number;
  /** The maximum amount of outgoing data that is buffered for an app that does not read. */
  readonly outgoingBytesMax: number;
  readonly callTimeoutMs: number;
  /** The time after the time limit of a call during which the app may still answer the call. */
  readonly lateAnswerMs: number;
  /** The maximum number of calls whose late answers are awaited. */
  readonly lateAnswersMax: number;
  /** Time limit of `tools/list` with all its pages. */
  readonly listTimeoutMs: number;
  /**
   * Time limit for the answer to `server/discover`. An app that does not answer is assumed to speak a revision before
   * MCP 2026.
   */
  readonly probeTimeoutMs: number;
  /**
   * Time limit for connecting to an app. It covers the answer to `initialize` and the subscription to changes of the
   * app's tools.
   */
  readonly handshakeTimeoutMs: number;
  /** Time limit for the start of an app, from the request until its socket accepts connections. */
  readonly activationTimeoutMs: number;
  /** A connection that is idle for this time is closed, and opened again on demand. */
  readonly idleTimeoutMs: number;
  readonly callsMax: number;
  readonly pagesMax: number;
  readonly toolsMax: number;
  /** The maximum number of content blocks in one result. */
  readonly blocksMax: number;
  /**
   * Rate limit for notifications, requests and unexpected answers from the app: messages per second, with bursts of
   * up to `unsolicitedBurst`.
   */
  readonly unsolicitedPerSecond: number;
  readonly unsolicitedBurst: number;
  /**
   * After this number of failures in a row, the app is not called for `backoffMs`, which doubles with each further
   * failure.
   */
  readonly failuresBeforeBackoff: number;
  readonly backoffMs: number;
  readonly backoffMsMax: number;
}

const MIB = 1024 * 1024;

export const defaultMcpLimits: McpLimits = {
  frameBytesMax: 4 * MIB,
  // 8 MiB hold several of the largest calls that the companion accepts, so only an app that does not read exceeds
  // `outgoingBytesMax`.
  outgoingBytesMax: 8 * MIB,
  callTimeoutMs: 60_000,
  // `lateAnswerMs` is long enough for an upload or a backup that takes ten times as long as a call may take.
  lateAnswerMs: 10 * 60_000,
  lateAnswersMax: 32,
  listTimeoutMs: 10_000,
  // `probeTimeoutMs` is long enough for an app that was just started, which usually answers within one second even on a
  // busy machine.
  probeTimeoutMs: 3_000,
  handshakeTimeoutMs: 10_000,
  activationTimeoutMs: 10_000,
  // `idleTimeoutMs` is longer than the pauses in a chat, and short enough that an unused app can exit soon.
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
