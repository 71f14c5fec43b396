/** Bytes to and from a bus, and descriptors where the transport can carry them. */
export interface BusTransport {
  readonly canPassFds: boolean;

  /** Once, before anything can be lost: nothing is read before this. */
  start(receiver: TransportReceiver): void;

  /**
   * `done` is called exactly once: when all has been handed to the system, or will never be. Descriptors are
   * no longer needed then.
   */
  write(data: Buffer, fds: readonly number[], done: () => void): void;

  /** Bytes that were written and that the system has not taken yet. */
  readonly pendingBytes: number;

  /** Closes the connection. Nothing is received after this; `done` of what is unwritten and `onClosed` follow soon. Safe to repeat. */
  destroy(): void;
}

export interface TransportReceiver {
  /** Before the `onData` with the first byte of the message that they came with. */
  onFds(fds: readonly number[]): void;
  onData(chunk: Buffer): void;
  /** Once, however the connection ended. An error if it was neither closed by the peer nor destroyed by this side. */
  onClosed(error?: Error): void;
}
