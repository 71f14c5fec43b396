import os from "node:os";
import type { ReceivedData, SocketCalls, SocketEvents } from "../../src/dbus/socket-calls.ts";

const { EAGAIN } = os.constants.errno;

/**
 * The system calls of one socket, with scripted results. Without a scripted result, `receive` reports that it would
 * block, `connect` succeeds, and `send` accepts everything.
 */
export class ScriptedSocket implements SocketCalls {
  readonly connects: number[] = [];
  /** The number of bytes that each `send` accepts, or the error with which it fails. */
  readonly sends: number[] = [];
  readonly receives: (ReceivedData | number)[] = [];
  /** The data that `send` has accepted. */
  readonly sent: { readonly text: string; readonly fds: readonly number[] }[] = [];
  /** The calls of open, connect, close and unwatch, in order. */
  readonly log: string[] = [];
  sendCalls = 0;
  receiveCalls = 0;
  watched: SocketEvents = { readable: false, writable: false };
  #onEvent: () => void = () => {};

  open(): number {
    this.log.push("open");
    return 99;
  }

  connect(): number {
    this.log.push("connect");
    return this.connects.shift() ?? 0;
  }

  send(_fd: number, data: Buffer, fds: readonly number[]): number {
    this.sendCalls += 1;
    const result = Math.min(this.sends.shift() ?? data.length, data.length);
    if (result > 0) this.sent.push({ text: data.toString("latin1", 0, result), fds });
    return result;
  }

  receive(): ReceivedData | number {
    this.receiveCalls += 1;
    return this.receives.shift() ?? -EAGAIN;
  }

  close(fd: number): void {
    this.log.push(`close ${fd}`);
  }

  watch(_fd: number, onEvent: () => void) {
    this.#onEvent = onEvent;
    return {
      update: (events: SocketEvents) => {
        this.watched = events;
      },
      close: () => {
        this.log.push("unwatch");
        this.#onEvent = () => {};
      },
    };
  }

  /** Reports an event of the socket as the event loop does. */
  event(): void {
    this.#onEvent();
  }
}

export function received(text: string, fds: readonly number[] = []): ReceivedData {
  return { data: Buffer.from(text, "latin1"), fds, isTruncated: false };
}
