/* oxlint-disable no-underscore-dangle -- names of usocket and of Node's streams */
import type { EventEmitter } from "node:events";
import { createRequire } from "node:module";
import { BusCallError } from "./port.ts";
import type { BusTransport, TransportReceiver } from "./transport.ts";

/** What is used of usocket 1.1.0, which has no types of its own. */
interface UnixSocket extends EventEmitter {
  /** Private: the native half; null once it is closed. `write` takes what fits: bytes taken, or an error. */
  _wrap: {
    write(data: Buffer, fds: readonly number[] | undefined): number | Error;
    drain: (() => void) | null;
  } | null;
  _write(chunk: Chunk, encoding: string, callback: (error?: Error) => void): void;
  write(chunk: Chunk): void;
  /** With a second argument takes descriptors too; null: all that have come. */
  read(size: number, fdCount: null): unknown;
  connect(path: string): void;
  destroy(): void;
}

type UnixSocketClass = new () => UnixSocket;

interface Chunk {
  readonly data: Buffer;
  readonly fds: readonly number[] | undefined;
  readonly done: () => void;
}

/** Emitted once by a socket that is closed, by whatever way. */
const LOST = "lost";

/**
 * Over usocket, which carries descriptors. Rejects with BusCallError `NotSupported` where usocket cannot be
 * loaded, else with what the system says of the path.
 */
export async function openFdTransport(
  path: string,
  load: () => UnixSocketClass = loadUnixSocket,
): Promise<BusTransport> {
  const socket = newSocket(load);
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.once("connected", () => {
      socket.off("error", reject);
      resolve();
    });
    socket.connect(path);
  });
  return new FdTransport(socket);
}

function newSocket(load: () => UnixSocketClass): UnixSocket {
  try {
    return new (repaired(load()))();
  } catch (error) {
    const refused = new BusCallError(
      "org.freedesktop.DBus.Error.NotSupported",
      "file descriptors cannot be passed: the optional package usocket is not installed, or was not built; " +
        "install a C++ compiler, make and Python 3, and then Berth's packages anew",
    );
    refused.cause = error;
    throw refused;
  }
}

function loadUnixSocket(): UnixSocketClass {
  const require = createRequire(import.meta.url);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a package without types, at a fixed version
  const loaded = require("usocket") as { readonly USocket: UnixSocketClass };
  return loaded.USocket;
}

function repaired(Socket: UnixSocketClass): UnixSocketClass {
  return class extends Socket {
    /**
     * As usocket's own, but for descriptors of a message of which not one byte could be written: it
     * forgets them, and a bus cuts off whoever announces descriptors and sends none.
     */
    override _write(chunk: Chunk, encoding: string, callback: (error?: Error) => void): void {
      if (!this._wrap) {
        callback(new Error("the connection is closed"));
        return;
      }
      const taken = this._wrap.write(chunk.data, chunk.fds);
      if (typeof taken !== "number") {
        callback(taken);
      } else if (taken === chunk.data.length) {
        chunk.done();
        callback();
      } else {
        const fds = taken === 0 ? chunk.fds : undefined;
        const rest: Chunk = { data: chunk.data.subarray(taken), fds, done: chunk.done };
        this._wrap.drain = () => this._write(rest, encoding, callback);
      }
    }

    /**
     * Node calls this after a write that failed, and usocket's own tells nobody of it. Not at once:
     * closing the native half in the middle of one of its own events ends the process.
     */
    override destroy(): void {
      setImmediate(() => {
        super.destroy();
        this.emit(LOST);
      });
    }
  };
}

class FdTransport implements BusTransport {
  readonly canPassFds = true;
  #pendingBytes = 0;
  readonly #socket: UnixSocket;
  readonly #unwritten = new Set<() => void>();
  #isClosed = false;
  #onClosed: () => void = () => {};

  constructor(socket: UnixSocket) {
    this.#socket = socket;
    for (const event of ["error", "close", LOST]) socket.on(event, () => this.#lost());
  }

  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  start(receiver: TransportReceiver): void {
    this.#onClosed = () => receiver.onClosed();
    if (this.#isClosed) {
      receiver.onClosed();
      return;
    }
    this.#socket.on("fds", (fds: readonly number[]) => {
      // usocket keeps a list of its own until they are read, for ever if need be.
      this.#socket.read(0, null);
      receiver.onFds(fds);
    });
    this.#socket.on("end", () => this.destroy());
    this.#socket.on("data", (chunk: Buffer) => receiver.onData(chunk));
  }

  write(data: Buffer, fds: readonly number[], done: () => void): void {
    if (this.#isClosed) {
      done();
      return;
    }
    this.#pendingBytes += data.length;
    const settle = () => {
      if (!this.#unwritten.delete(settle)) return;
      this.#pendingBytes -= data.length;
      done();
    };
    this.#unwritten.add(settle);
    this.#socket.write({ data, fds: fds.length > 0 ? fds : undefined, done: settle });
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #lost(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const settle of this.#unwritten) settle();
    this.#onClosed();
  }
}
