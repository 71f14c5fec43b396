import assert from "node:assert";
import os from "node:os";
import type { BusTransport, TransportReceiver } from "./bus-transport.ts";
import { connectSocket } from "./connect-socket.ts";
import { closeFds } from "./descriptors.ts";
import { loadSocketCalls } from "./koffi-socket-calls.ts";
import {
  DESCRIPTORS_MAX,
  RECEIVED_BYTES_MAX,
  type ReceivedData,
  type SocketCalls,
  type SocketWatch,
} from "./socket-calls.ts";
import { systemError } from "./system-error.ts";
import { WriteQueue } from "./write-queue.ts";

const { EAGAIN, ENOBUFS, ENOMEM } = os.constants.errno;
/**
 * The error ETOOMANYREFS, for which Node.js has no name: too many descriptors of this user are in transit between
 * processes.
 */
const ETOOMANYREFS = 109;
/**
 * Errors after which the message is sent again later. No byte of the message was sent, and no event reports when the
 * message can be sent.
 */
const TRANSIENT = new Set([-ENOBUFS, -ENOMEM, -ETOOMANYREFS]);
const TRANSIENT_RETRY_MS = 10;
/**
 * The maximum number of retries of a write after a transient error, such as too many descriptors in transit. A receiver
 * reads descriptors within milliseconds, unless it does not read at all.
 */
const TRANSIENT_RETRIES_MAX = 500;
/**
 * The maximum number of reads per event before other work runs. Each read returns at most 64 KiB, which can hold
 * hundreds of messages.
 */
const READS_MAX = 4;
/**
 * The maximum number of rounds of reading after a failed write. A socket buffers about 200 KiB, so a few rounds empty
 * it, and a peer that keeps writing cannot prolong the reading.
 */
const REST_TURNS_MAX = 64;

/**
 * Opens a transport over a Unix socket that passes descriptors. Rejects with BusCallError `NotSupported` if this
 * machine cannot pass descriptors, with the system's error if the connection fails, or with the signal's reason.
 */
export async function openFdTransport(
  path: string,
  signal: AbortSignal,
  load: () => Promise<SocketCalls> = loadSocketCalls,
): Promise<BusTransport> {
  const calls = await load();
  return new FdTransport(calls, await connectSocket(calls, path, signal));
}

/**
 * A connected socket. Its states are open, failing and closed. A write error that is not transient leads to failing:
 * nothing can be written any more, and the socket is closed when the data that has already arrived is read.
 */
export class FdTransport implements BusTransport {
  readonly canPassFds = true;
  readonly #calls: SocketCalls;
  readonly #fd: number;
  readonly #watch: SocketWatch;
  readonly #queue = new WriteQueue();
  readonly #send: (data: Buffer, fds: readonly number[]) => number;
  #receiver: TransportReceiver | undefined;
  #isFlushing = false;
  #writeError: Error | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #retries = 0;
  #isClosed = false;
  #isClosedReported = false;
  #reason: Error | undefined;

  /** Takes ownership of the descriptor. */
  constructor(calls: SocketCalls, fd: number) {
    this.#calls = calls;
    this.#fd = fd;
    this.#send = (data, fds) => (this.#isClosed ? -EAGAIN : calls.send(fd, data, fds));
    this.#watch = calls.watch(fd, () => this.#onEvent());
  }

  get pendingBytes(): number {
    return this.#queue.pendingBytes;
  }

  start(receiver: TransportReceiver): void {
    this.#receiver = receiver;
    if (this.#isClosedReported) receiver.onClosed(this.#reason);
    else if (!this.#isClosed) this.#updateWatch();
  }

  write(data: Buffer, fds: readonly number[], done: () => void): void {
    assert(fds.length <= DESCRIPTORS_MAX, "a message has more descriptors than allowed");
    assert(fds.length === 0 || data.length > 0, "descriptors must be sent with at least one byte");
    if (this.#isClosed || this.#writeError) {
      done();
      return;
    }
    const isIdle = this.#queue.isEmpty && !this.#isFlushing;
    this.#queue.add(data, fds, done);
    if (isIdle) this.#flush();
  }

  destroy(reason?: Error): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#reason = reason;
    clearTimeout(this.#retryTimer);
    // The watch is closed before the descriptor, because libuv must not poll a descriptor number that the system may
    // have reused.
    this.#watch.close();
    this.#calls.close(this.#fd);
    setImmediate(() => {
      this.#queue.clear();
      this.#isClosedReported = true;
      this.#receiver?.onClosed(reason);
    });
  }

  #onEvent(): void {
    if (!this.#queue.isEmpty && !this.#retryTimer) this.#flush();
    if (this.#receiver) this.#read(this.#receiver);
    if (!this.#isClosed) this.#updateWatch();
  }

  #updateWatch(): void {
    const writable = !this.#queue.isEmpty && !this.#retryTimer;
    this.#watch.update({ readable: this.#receiver !== undefined, writable });
  }

  #flush(): void {
    this.#isFlushing = true;
    const pendingBytes = this.#queue.pendingBytes;
    const result = this.#queue.flush(this.#send);
    this.#isFlushing = false;
    if (this.#isClosed) return;
    if (this.#queue.pendingBytes < pendingBytes) this.#retries = 0;
    if (result === 0 || result === -EAGAIN) this.#updateWatch();
    else if (TRANSIENT.has(result) && this.#retries < TRANSIENT_RETRIES_MAX) this.#retryLater();
    else this.#failWriting(systemError("sendmsg", result));
  }

  #retryLater(): void {
    this.#retries += 1;
    // Write events are off until the next attempt to send, because the socket would be reported as writable at once.
    this.#retryTimer = setTimeout(() => {
      this.#retryTimer = undefined;
      this.#flush();
    }, TRANSIENT_RETRY_MS);
    this.#updateWatch();
  }

  /**
   * Handles a write error: reads the data that has already arrived, and then closes the socket. The data may contain
   * the reason why the peer closed the connection.
   */
  #failWriting(error: Error): void {
    this.#writeError = error;
    this.#queue.clear();
    this.#readRest(REST_TURNS_MAX);
  }

  #readRest(turns: number): void {
    setImmediate(() => {
      if (this.#isClosed) return;
      if (this.#receiver && turns > 0) this.#read(this.#receiver);
      else this.destroy(this.#writeError);
      this.#readRest(turns - 1);
    });
  }

  #read(receiver: TransportReceiver): void {
    for (let reads = 0; reads < READS_MAX && !this.#isClosed; reads++) {
      const received = this.#calls.receive(this.#fd);
      if (typeof received === "number") {
        if (received !== -EAGAIN) this.destroy(systemError("recvmsg", received));
        else if (this.#writeError) this.destroy(this.#writeError);
        return;
      }
      this.#deliver(receiver, received);
      // A read of less data than requested has probably emptied the socket; if not, another event follows. The system
      // never merges a message that has descriptors with the next one.
      if (received.data.length < RECEIVED_BYTES_MAX && received.fds.length === 0) return;
    }
  }

  #deliver(receiver: TransportReceiver, { data, fds, isTruncated }: ReceivedData): void {
    if (isTruncated) {
      closeFds(fds);
      this.destroy(
        new Error(
          "descriptors were lost: this process has too many open, or received too many at once",
        ),
      );
      return;
    }
    if (fds.length > 0) receiver.onFds(fds);
    if (data.length === 0) this.destroy(this.#writeError);
    else if (!this.#isClosed) receiver.onData(data);
  }
}
