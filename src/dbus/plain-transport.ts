import { connect, type Socket } from "node:net";
import type { BusTransport, TransportReceiver } from "./bus-transport.ts";

/** Opens a transport over Node's own sockets, which cannot pass descriptors. Rejects with the system's error. */
export function openPlainTransport(path: string): Promise<BusTransport> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(new PlainTransport(socket));
    });
  });
}

class PlainTransport implements BusTransport {
  readonly canPassFds = false;
  readonly #socket: Socket;

  constructor(socket: Socket) {
    this.#socket = socket;
    // The event "close" follows and is handled. An "error" event without a listener would end the process.
    socket.on("error", () => {});
  }

  get pendingBytes(): number {
    return this.#socket.writableLength;
  }

  start(receiver: TransportReceiver): void {
    this.#socket.once("close", () => receiver.onClosed());
    this.#socket.once("end", () => this.#socket.destroy());
    this.#socket.on("data", (chunk: Buffer) => receiver.onData(chunk));
  }

  write(data: Buffer, _fds: readonly number[], done: () => void): void {
    this.#socket.write(data, () => done());
  }

  destroy(): void {
    this.#socket.destroy();
  }
}
