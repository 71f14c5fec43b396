/**
 * The system calls for Unix stream sockets that pass descriptors, with plain numbers and Buffers. They never block.
 * A negative result is a kernel error such as `-EAGAIN` or `-EPIPE`. An interrupted call is repeated.
 */
export interface SocketCalls {
  /** Opens a non-blocking socket that child processes do not inherit. Returns its descriptor. */
  open(): number;

  /**
   * Returns 0 when connected. `-EAGAIN` means that the backlog of the listener is full; no event reports when it is
   * not.
   */
  connect(fd: number, address: Buffer): number;

  /**
   * Returns the number of bytes that the system accepted, which can be less than `data`. The descriptors, at most
   * DESCRIPTORS_MAX, are sent with the first byte: all of them if the result is above zero, otherwise none.
   */
  send(fd: number, data: Buffer, fds: readonly number[]): number;

  /** Received descriptors belong to the caller, and child processes do not inherit them. */
  receive(fd: number): ReceivedData | number;

  /** The watch of the descriptor must be closed first. */
  close(fd: number): void;

  /** Calls `onEvent` for the events that `update` selects, and when the socket has failed. */
  watch(fd: number, onEvent: () => void): SocketWatch;
}

export interface ReceivedData {
  /** Empty if the peer has closed its sending side. The memory belongs to the caller. */
  readonly data: Buffer;
  readonly fds: readonly number[];
  /** Descriptors were lost, because there was no space for them or this process may not open more. */
  readonly isTruncated: boolean;
}

/** Level-triggered: data left unread or unwritten causes another event. No event is reported before `update`. */
export interface SocketWatch {
  /** May be called from `onEvent`. Has no effect after `close`. The end of the connection counts as readable. */
  update(events: SocketEvents): void;

  /** No event is reported after this, and the descriptor may be closed at once. Safe to repeat. */
  close(): void;
}

export interface SocketEvents {
  readonly readable: boolean;
  readonly writable: boolean;
}

/** Most bytes that one call receives; a socket buffers about 200 KiB. */
export const RECEIVED_BYTES_MAX = 64 * 1024;

/** SCM_MAX_FD of Linux: the most descriptors in one socket message. */
export const DESCRIPTORS_MAX = 253;
