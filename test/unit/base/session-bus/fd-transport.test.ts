/* oxlint-disable no-underscore-dangle -- names of usocket and of Node's streams */
import { EventEmitter } from "node:events";
import { expect, test, vi } from "vitest";
import { openFdTransport } from "../../../../src/base/session-bus/fd-transport.ts";
import { PATIENT } from "../../../support/patience.ts";

interface Chunk {
  readonly data: Buffer;
  readonly fds: readonly number[] | undefined;
  readonly done: () => void;
}

/** As much of usocket's socket as the transport meets, on a system that takes so many bytes at a time. */
function socketTaking(takes: (number | Error)[]) {
  const written: { bytes: number; fds: readonly number[] | undefined }[] = [];
  const sockets: FakeSocket[] = [];
  class FakeSocket extends EventEmitter {
    _wrap: {
      write: (data: Buffer, fds: readonly number[] | undefined) => number | Error;
      drain: (() => void) | null;
    } | null = {
      write: (data, fds) => {
        const taken = takes.shift() ?? data.length;
        if (typeof taken !== "number") return taken;
        // A system takes descriptors along with the first byte.
        written.push({ bytes: Math.min(taken, data.length), fds: taken > 0 ? fds : undefined });
        return Math.min(taken, data.length);
      },
      drain: null,
    };
    constructor() {
      super();
      sockets.push(this);
    }
    _write(_chunk: Chunk, _encoding: string, _callback: (error?: Error) => void): void {
      throw new Error("usocket's own is not to be used");
    }
    write(chunk: Chunk): void {
      // As Node's streams do where a write fails.
      this._write(chunk, "", (error) => error && this.destroy());
    }
    read(): unknown {
      return null;
    }
    connect(): void {
      setImmediate(() => this.emit("connected"));
    }
    destroy(): void {
      this._wrap = null;
    }
  }
  const drain = () => {
    const wrap = sockets[0]?._wrap;
    const waiting = wrap?.drain;
    if (wrap) wrap.drain = null;
    waiting?.();
  };
  return { load: () => FakeSocket, written, drain };
}

test("descriptors of which nothing could be sent are sent with the first byte that can", async () => {
  const { load, written, drain } = socketTaking([0, 0, 3, 2]);
  const transport = await openFdTransport("/x", load);
  let isDone = false;
  transport.write(Buffer.from("hello"), [7, 8], () => {
    isDone = true;
  });
  for (let round = 0; round < 3; round++) {
    expect(isDone).toBe(false);
    expect(transport.pendingBytes).toBe(5);
    drain();
  }
  expect(isDone).toBe(true);
  expect(transport.pendingBytes).toBe(0);
  expect(written).toEqual([
    { bytes: 0, fds: undefined },
    { bytes: 0, fds: undefined },
    { bytes: 3, fds: [7, 8] },
    { bytes: 2, fds: undefined },
  ]);
});

test("a write that fails ends the connection, and nobody waits any more", async () => {
  const { load } = socketTaking([0, new Error("EPIPE")]);
  const transport = await openFdTransport("/x", load);
  const events: string[] = [];
  transport.start({
    onFds: () => {},
    onData: () => {},
    onClosed: () => events.push("closed"),
  });
  transport.write(Buffer.from("waits"), [], () => events.push("first"));
  transport.write(Buffer.from("fails"), [], () => events.push("second"));
  await vi.waitFor(() => expect(events).toEqual(["first", "second", "closed"]), PATIENT);
  transport.write(Buffer.from("late"), [], () => events.push("late"));
  expect(events.at(-1)).toBe("late");
  expect(transport.pendingBytes).toBe(0);
});
