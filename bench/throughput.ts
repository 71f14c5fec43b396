import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const CONNECTIONS = 16;

export interface Target {
  readonly address: string;
  readonly port: number;
  /** The Host header. */
  readonly name: string;
}

/**
 * Measures answers per second over keep-alive connections with one request at a time. Uses bare sockets, because an HTTP client
 * of Node is slower than the targets.
 */
export async function answersPerSecond(target: Target, forMs: number): Promise<number> {
  const connections = await Promise.all(
    Array.from({ length: CONNECTIONS }, () => Connection.open(target)),
  );
  try {
    const start = performance.now();
    for (const connection of connections) connection.begin();
    await sleep(forMs);
    const count = connections.reduce((sum, { answers }) => sum + answers, 0);
    const perSecond = count / ((performance.now() - start) / 1000);
    const failed = connections.find(({ failure }) => failure);
    if (failed) throw new Error(`${target.name} at port ${target.port}: ${failed.failure}`);
    return perSecond;
  } finally {
    for (const connection of connections) connection.close();
  }
}

class Connection {
  answers = 0;
  failure = "";
  readonly #socket: Socket;
  readonly #request: string;
  #received = "";
  #isClosed = false;

  static open(target: Target): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: target.address, port: target.port, noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => resolve(new Connection(socket, target.name)));
    });
  }

  private constructor(socket: Socket, name: string) {
    this.#socket = socket;
    this.#request = `GET / HTTP/1.1\r\nHost: ${name}\r\n\r\n`;
    socket.setEncoding("latin1").on("data", (text: string) => this.#take(text));
    socket.on("error", (error) => (this.failure ||= error.message));
    socket.on("close", () => {
      if (!this.#isClosed) this.failure ||= "the connection was ended";
    });
  }

  begin(): void {
    this.#socket.write(this.#request);
  }

  close(): void {
    this.#isClosed = true;
    this.#socket.destroy();
  }

  #take(text: string): void {
    this.#received += text;
    const head = this.#received.indexOf("\r\n\r\n");
    if (head === -1) return;
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(this.#received)?.[1]);
    if (!this.#received.startsWith("HTTP/1.1 200 ") || Number.isNaN(length)) {
      this.failure ||= `it answered ${this.#received.slice(0, 200)}`;
      return;
    }
    if (this.#received.length < head + 4 + length) return;
    this.#received = "";
    this.answers += 1;
    this.begin();
  }
}
