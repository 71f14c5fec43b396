import { rm } from "node:fs/promises";
import {
  createServer,
  type IncomingMessage,
  type RequestOptions,
  request,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { finished } from "node:stream/promises";

/**
 * Stands between Berth and the engine on a Unix socket, passes everything on, and does one thing at
 * one request that changes something on the engine:
 *
 *   before      `act` before the engine has seen the request, which never reaches it
 *   unanswered  `act` when the engine has done it, and before Berth hears of that
 *   lost        the engine does it, the answer is cut off; Berth goes on
 */
export type RelayMoment = "before" | "unanswered" | "lost";

export interface RelayTrap {
  /** Counted from 1, from the moment at which the trap is set. */
  readonly at: number;
  readonly moment: RelayMoment;
  readonly act: () => void;
}

export class EngineRelay implements AsyncDisposable {
  readonly #socketPath: string;
  readonly #engine: string;
  readonly #server = createServer();
  readonly #sockets = new Set<Socket>();
  #trap: RelayTrap | undefined;
  #seen: string[] = [];
  #hasFired = false;

  /** Both are given as in DOCKER_HOST, and have to be Unix sockets. */
  static async open(host: string, engineHost: string): Promise<EngineRelay> {
    const relay = new EngineRelay(socketPathOf(host), socketPathOf(engineHost));
    await new Promise<void>((resolve) => relay.#server.listen(relay.#socketPath, resolve));
    return relay;
  }

  private constructor(socketPath: string, engine: string) {
    this.#socketPath = socketPath;
    this.#engine = engine;
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#server.on("request", (incoming, answer) => {
      this.#pass(incoming, answer).catch(() => incoming.socket.destroy());
    });
  }

  /** Forgets what was counted. */
  setTrap(trap: RelayTrap | undefined): void {
    this.#trap = trap;
    this.#seen = [];
    this.#hasFired = false;
  }

  get hasFired(): boolean {
    return this.#hasFired;
  }

  /** The changing requests since the trap was set, such as `POST /containers/create`. */
  get seen(): readonly string[] {
    return this.#seen;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#trap = undefined;
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    await rm(this.#socketPath, { force: true });
  }

  async #pass(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const trap = this.#trapFor(incoming);
    if (trap?.moment === "before") {
      trap.act();
      incoming.socket.destroy();
      return;
    }
    const options: RequestOptions = {
      socketPath: this.#engine,
      method: incoming.method ?? "GET",
      path: incoming.url ?? "/",
      headers: incoming.headers,
      agent: false,
    };
    const reply = await new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = request(options, resolve);
      outgoing.once("error", reject);
      incoming.pipe(outgoing);
      // Whoever stops listening to a stream (of events, of a log) stops it at the engine too.
      answer.once("close", () => outgoing.destroy());
    });
    if (trap) {
      await finished(reply.resume());
      trap.act();
      incoming.socket.destroy();
      return;
    }
    answer.writeHead(reply.statusCode ?? 500, reply.headers);
    answer.flushHeaders();
    reply.pipe(answer);
    await finished(answer);
  }

  #trapFor(incoming: IncomingMessage): RelayTrap | undefined {
    const path = (incoming.url ?? "").replace(/^\/v[\d.]+/, "").replace(/\?.*$/, "");
    const isChange =
      incoming.method !== "GET" &&
      incoming.method !== "HEAD" &&
      !path.includes("/exec") &&
      // Images of earlier versions are removed at some point, or not.
      !(incoming.method === "DELETE" && path.startsWith("/images/"));
    if (!isChange) return undefined;
    this.#seen.push(`${incoming.method} ${path}`);
    const trap = this.#trap;
    if (!trap || this.#hasFired || this.#seen.length !== trap.at) return undefined;
    this.#hasFired = true;
    return trap;
  }
}

function socketPathOf(host: string): string {
  const path = /^unix:\/\/(.+)$/.exec(host)?.[1];
  if (path === undefined) throw new Error(`the relay needs a Unix socket, not ${host}`);
  return path;
}
