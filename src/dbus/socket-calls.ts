/**
 * The system calls of Unix stream sockets that pass descriptors, on plain numbers and Buffers. They never block.
 * A negative result is an error as the kernel reports it: `-EAGAIN`, `-EPIPE`. An interrupted call is repeated.
 */
export interface SocketCalls {
  /** Opens a socket that is not blocking and that is closed in child processes. Returns its descriptor. */
  open(): number;

  /** Returns 0 when it is connected. `-EAGAIN`: the backlog of the listener is full, and no event follows when it is not. */
  connect(fd: number, address: Buffer): number;

  /**
   * Returns how many bytes the system accepted, which can be fewer than there are. The descriptors, at most
   * DESCRIPTORS_MAX, are sent with the first byte: with any result above zero all of them were, else none.
   */
  send(fd: number, data: Buffer, fds: readonly number[]): number;

  /** Descriptors that are received belong to the caller, and are closed in child processes. */
  receive(fd: number): ReceivedData | number;

  /** Stop watching the descriptor before this. */
  close(fd: number): void;

  /** Calls `onEvent` on the events that `update` asks for, and when the socket has failed. */
  watch(fd: number, onEvent: () => void): SocketWatch;
}

export interface ReceivedData {
  /** Empty: the peer sends no more. The memory belongs to the caller. */
  readonly data: Buffer;
  readonly fds: readonly number[];
  /** Descriptors were lost: there was no space for them, or this process may not open as many. */
  readonly isTruncated: boolean;
}

/** Level-triggered: what is left unread or unwritten causes the next event. Nothing is reported before `update`. */
export interface SocketWatch {
  /** May be called from `onEvent`. Does nothing after `close`. The end of the connection counts as readable. */
  update(events: SocketEvents): void;

  /** No event is reported after this. The descriptor may be closed at once. Safe to repeat. */
  close(): void;
}

export interface SocketEvents {
  readonly readable: boolean;
  readonly writable: boolean;
}

/** What one call receives at most; a socket buffers about 200 KiB. */
export const RECEIVED_BYTES_MAX = 64 * 1024;

/** SCM_MAX_FD of Linux: how many descriptors one message of a socket can have. */
export const DESCRIPTORS_MAX = 253;
