import { randomBytes } from "node:crypto";
import { Agent, request } from "node:http";
import type { Socket } from "node:net";

/** The target of requests to an app through the ingress, as visitors send them. */
export interface VisitTarget {
  readonly port: number;
  readonly host: string;
  readonly path?: string;
  readonly method?: "GET" | "POST";
}

/** Sends one request. Rejects if no response arrives. */
export function visit(
  { port, host, path = "/", method = "GET" }: VisitTarget,
  options: { readonly agent?: Agent; readonly limitMs?: number } = {},
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const headers = { Host: host };
    const outgoing = request(
      { host: "127.0.0.1", port, path, method, headers, agent: options.agent ?? false },
      (response) => {
        let body = "";
        response.setEncoding("utf8").on("data", (text: string) => (body += text));
        response.once("error", reject);
        response.once("end", () => resolve({ status: response.statusCode ?? 0, body }));
      },
    );
    outgoing.setTimeout(options.limitMs ?? 15_000, () =>
      outgoing.destroy(new Error("no answer in time")),
    );
    outgoing.once("error", reject);
    outgoing.end(method === "POST" ? "a body" : undefined);
  });
}

/** Simulated visitors, each of which sends one request after another until `stop`. */
export class TrafficLoad implements AsyncDisposable {
  readonly #visitors: Promise<void>[];
  readonly #agent = new Agent({ keepAlive: true });
  #isOver = false;
  requests = 0;
  /** The failed requests. Each text has the number of the request, and its status or error. */
  readonly failures: string[] = [];
  /** The number of responses with each body, in the order in which the bodies first occurred. */
  readonly bodies = new Map<string, number>();

  /** Creates visitors, each of which waits `restMs` after each response. */
  constructor(where: VisitTarget, { visitors = 8, restMs = 0 } = {}) {
    this.#visitors = Array.from({ length: visitors }, () => this.#sendRequests(where, restMs));
  }

  /** Stops the visitors, and waits for the last responses. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#visitors);
    this.#agent.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #sendRequests(where: VisitTarget, restMs: number): Promise<void> {
    while (!this.#isOver) {
      this.requests += 1;
      try {
        const { status, body } = await visit(where, { agent: this.#agent });
        if (status === 200) this.bodies.set(body, (this.bodies.get(body) ?? 0) + 1);
        else this.failures.push(`request ${this.requests}: ${status} ${body.slice(0, 80)}`);
      } catch (error) {
        this.failures.push(`request ${this.requests}: ${String(error)}`);
      }
      if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, restMs));
    }
  }
}

/** An open WebSocket, and the messages that it has received. */
export class OpenSocket {
  readonly #socket: Socket;
  bytes = 0;
  isOpen = true;

  static connect({ port, host, path = "/socket" }: VisitTarget): Promise<OpenSocket> {
    return new Promise((resolve, reject) => {
      const outgoing = request({
        host: "127.0.0.1",
        port,
        path,
        agent: false,
        headers: {
          Host: host,
          Connection: "Upgrade",
          Upgrade: "websocket",
          "Sec-WebSocket-Version": "13",
          "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
        },
      });
      outgoing.once("upgrade", (_, socket) => resolve(new OpenSocket(socket)));
      outgoing.once("response", (response) => reject(new Error(`status ${response.statusCode}`)));
      outgoing.once("error", reject);
      outgoing.end();
    });
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk) => (this.bytes += chunk.length));
    socket.on("error", () => (this.isOpen = false));
    socket.once("close", () => (this.isOpen = false));
  }

  close(): void {
    this.#socket.destroy();
  }
}
