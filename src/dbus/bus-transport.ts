/** Carries bytes to and from a bus, and file descriptors if it can. */
export interface BusTransport {
  readonly canPassFds: boolean;

  /** Starts reading. Call it once; no data is read before, so none is lost. */
  start(receiver: TransportReceiver): void;

  /**
   * Calls `done` exactly once, when all data was handed to the system or never will be. The descriptors are no
   * longer needed then.
   */
  write(data: Buffer, fds: readonly number[], done: () => void): void;

  /** Bytes that the system has not accepted yet. */
  readonly pendingBytes: number;

  /**
   * Closes the connection. No data is received after this; `done` of unwritten data and `onClosed` follow soon.
   * Safe to repeat.
   */
  destroy(): void;
}

export interface TransportReceiver {
  /** Called before the `onData` with the first byte of the message that the descriptors belong to. */
  onFds(fds: readonly number[]): void;
  onData(chunk: Buffer): void;
  /** Called once when the connection has ended, with an error unless the peer closed it or this side destroyed it. */
  onClosed(error?: Error): void;
}
