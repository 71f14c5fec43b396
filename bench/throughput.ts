import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const CONNECTIONS = 16;

export interface Target {
  readonly address: string;
  readonly port: number;
  /** The Host header of the requests. */
  readonly name: string;
  /** The path of the requests; by default `/`. */
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Measures answers per second over keep-alive connections, each with one request at a time. Uses bare sockets, because
 * an HTTP client of Node is slower than the targets.
 */
export async function answersPerSecond(target: Target, forMs: number): Promise<number> {
  const { answers, ms } = await requestContinuously(target, forMs);
  return answers / (ms / 1000);
}

/**
 * Measures the CPU time that a process uses for each answer, in milliseconds, while the target is under full load.
 */
export async function cpuMsPerAnswer(target: Target, pid: number, forMs: number): Promise<number> {
  const before = readCpuMs(pid);
  const { answers } = await requestContinuously(target, forMs);
  return (readCpuMs(pid) - before) / answers;
}

/** Reads the CPU time of a process so far, all threads together (proc(5): fields 14 and 15, in ticks of 10 ms). */
function readCpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

async function requestContinuously(
  target: Target,
  forMs: number,
): Promise<{ readonly answers: number; readonly ms: number }> {
  const connections = await Promise.all(
    Array.from({ length: CONNECTIONS }, () => Connection.open(target)),
  );
  try {
    const start = performance.now();
    for (const connection of connections) connection.begin();
    await sleep(forMs);
    const answers = connections.reduce((sum, connection) => sum + connection.answers, 0);
    const ms = performance.now() - start;
    const failed = connections.find(({ failure }) => failure);
    if (failed) throw new Error(`${target.name} at port ${target.port}: ${failed.failure}`);
    return { answers, ms };
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
      socket.once("connect", () => resolve(new Connection(socket, target)));
    });
  }

  private constructor(socket: Socket, { name, path = "/", headers = {} }: Target) {
    this.#socket = socket;
    const lines = Object.entries(headers).map(([key, value]) => `${key}: ${value}\r\n`);
    this.#request = `GET ${path} HTTP/1.1\r\nHost: ${name}\r\n${lines.join("")}\r\n`;
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
