/** Carries bytes to and from a bus, and also file descriptors if the transport supports them. */
export interface BusTransport {
  readonly canPassFds: boolean;

  /**
   * Starts reading. Call this method once. Data that arrives earlier is not lost, because reading begins only with this
   * call.
   */
  start(receiver: TransportReceiver): void;

  /**
   * Writes the data and calls `done` exactly once, when all data was handed to the system or will never be written.
   * The caller may close the descriptors then.
   */
  write(data: Buffer, fds: readonly number[], done: () => void): void;

  /** Number of bytes that wait to be written because the system has not accepted them yet. */
  readonly pendingBytes: number;

  /**
   * Closes the connection. No data is received after this call; `done` of unwritten data and `onClosed` are called
   * soon. Repeated calls have no effect.
   */
  destroy(): void;
}

export interface TransportReceiver {
  /**
   * Called with received descriptors, before the `onData` that has the first byte of the message to which they
   * belong.
   */
  onFds(fds: readonly number[]): void;
  onData(chunk: Buffer): void;
  /** Called once when the connection has ended, with an error unless the peer closed it or this side destroyed it. */
  onClosed(error?: Error): void;
}
