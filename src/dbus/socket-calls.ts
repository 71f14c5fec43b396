/**
 * The system calls for Unix stream sockets that pass descriptors, with plain numbers and Buffers. They never block. A
 * negative result is a kernel error such as `-EAGAIN` or `-EPIPE`. A call that a signal interrupted is repeated.
 */
export interface SocketCalls {
  /** Opens a non-blocking socket that child processes do not inherit. Returns its descriptor. */
  open(): number;

  /**
   * Connects a socket. Returns 0 when it is connected. `-EAGAIN` means that the listener's backlog is full; no event
   * reports when it has space again.
   */
  connect(fd: number, address: Buffer): number;

  /**
   * Sends data and descriptors. Returns the number of bytes that the system accepted, which can be less than `data`.
   * The descriptors, at most DESCRIPTORS_MAX, are sent with the first byte: all of them if the result is above zero,
   * otherwise none.
   */
  send(fd: number, data: Buffer, fds: readonly number[]): number;

  /** Receives data and descriptors. The descriptors belong to the caller, and child processes do not inherit them. */
  receive(fd: number): ReceivedData | number;

  /** Closes a descriptor, whose watch must be closed first. */
  close(fd: number): void;

  /** Watches a descriptor: calls `onEvent` for the events that `update` selects, and when the socket has failed. */
  watch(fd: number, onEvent: () => void): SocketWatch;
}

export interface ReceivedData {
  /** The received bytes; empty if the peer has closed its sending side. The memory belongs to the caller. */
  readonly data: Buffer;
  readonly fds: readonly number[];
  /** True if descriptors were lost, because there was no space for them or this process may not open more. */
  readonly isTruncated: boolean;
}

/**
 * A level-triggered watch of a socket: an event is repeated as long as the socket remains readable or writable. No
 * event is reported before `update` is called.
 */
export interface SocketWatch {
  /**
   * Selects the events to report. May be called from `onEvent`, and has no effect after `close`. The end of the
   * connection counts as readable.
   */
  update(events: SocketEvents): void;

  /**
   * Ends the watch. No event is reported after this call, and the descriptor may be closed at once. Repeated calls
   * have no effect.
   */
  close(): void;
}

export interface SocketEvents {
  readonly readable: boolean;
  readonly writable: boolean;
}

/** Largest number of bytes that one call receives; a socket buffers about 200 KiB. */
export const RECEIVED_BYTES_MAX = 64 * 1024;

/** SCM_MAX_FD of Linux: the maximum number of descriptors in one socket message. */
export const DESCRIPTORS_MAX = 253;
