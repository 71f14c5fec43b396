import { closeSync } from "node:fs";
import { FdTransport } from "../../src/dbus/fd-transport.ts";
import { loadSocketCalls } from "../../src/dbus/koffi-socket-calls.ts";
import { socketPair } from "./socket-pair.ts";

/** One end of a socket pair: a transport, and the data that it has received. */
export class SocketPeer implements Disposable {
  readonly transport: FdTransport;
  readonly fds: number[] = [];
  readonly #chunks: Buffer[] = [];
  receivedBytes = 0;
  closings = 0;
  error: Error | undefined;

  constructor(transport: FdTransport) {
    this.transport = transport;
  }

  /** Starts reading data from the socket. */
  start(): this {
    this.transport.start({
      onFds: (fds) => this.fds.push(...fds),
      onData: (chunk) => {
        this.#chunks.push(chunk);
        this.receivedBytes += chunk.length;
      },
      onClosed: (error) => {
        this.closings += 1;
        this.error = error;
      },
    });
    return this;
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString("latin1");
  }

  /** Writes data. Resolves when the system has accepted all data, or will never accept it. */
  write(data: Buffer | string, fds: readonly number[] = []): Promise<void> {
    const bytes = typeof data === "string" ? Buffer.from(data, "latin1") : data;
    return new Promise((resolve) => this.transport.write(bytes, fds, resolve));
  }

  [Symbol.dispose](): void {
    this.transport.destroy();
    for (const fd of this.fds.splice(0)) closeSync(fd);
  }
}

/** Creates the two connected ends of a socket pair, neither of which reads yet. */
export async function socketPeers(): Promise<readonly [SocketPeer, SocketPeer]> {
  const calls = await loadSocketCalls();
  const [left, right] = socketPair();
  return [
    new SocketPeer(new FdTransport(calls, left)),
    new SocketPeer(new FdTransport(calls, right)),
  ];
}
