import { once } from "node:events";
import { rm } from "node:fs/promises";
import {
  createServer,
  type IncomingMessage,
  type RequestOptions,
  request,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { finished } from "node:stream/promises";

/**
 * The moment at which the relay interferes with one request that changes the engine:
 * - before: calls `act` instead of forwarding the request, which never reaches the engine
 * - unanswered: calls `act` when the engine has executed the request, before Berth gets the response
 * - lost: the engine executes the request, and the response is cut off; Berth keeps running
 * - held: calls `act` when the engine has completed its response; Berth gets all of it but the end, on an open connection
 */
export type RelayMoment = "before" | "unanswered" | "lost" | "held";

export interface RelayTrap {
  /**
   * The number of the request with which the relay interferes. Only requests that change the engine are counted,
   * from 1 for the first one after `setTrap`.
   */
  readonly at: number;
  readonly moment: RelayMoment;
  readonly act: () => void;
}

/**
 * Matches the name of a lease record, a volume that Berth replaces every 20 s. Requests for such volumes do not count
 * as changes.
 */
const LEASE_RECORD = /berth-\w+_lease-\d+/;

/**
 * A relay between Berth and the engine on a Unix socket. It forwards everything, and can interfere with one request.
 */
export class EngineRelay implements AsyncDisposable {
  readonly #socketPath: string;
  readonly #engine: string;
  readonly #server = createServer();
  readonly #sockets = new Set<Socket>();
  #trap: RelayTrap | undefined;
  #seen: string[] = [];
  #hasFired = false;

  /** Opens the relay; both addresses have the form of DOCKER_HOST and must be Unix sockets. */
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

  /** Sets the request with which the relay interferes, or none, and resets the count of requests. */
  setTrap(trap: RelayTrap | undefined): void {
    this.#trap = trap;
    this.#seen = [];
    this.#hasFired = false;
  }

  get hasFired(): boolean {
    return this.#hasFired;
  }

  /** The requests since the last `setTrap` that change the engine, such as `POST /containers/create`. */
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
    const path = (incoming.url ?? "").replace(/^\/v[\d.]+/, "").replace(/\?.*$/, "");
    // A request that creates a volume has the name of the volume in its body, not in its path.
    const body = path === "/volumes/create" ? await buffer(incoming) : undefined;
    const isLease = LEASE_RECORD.test(body?.toString() ?? path);
    const trap = isLease ? undefined : this.#trapFor(incoming.method ?? "GET", path);
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
      if (body) outgoing.end(body);
      else incoming.pipe(outgoing);
      // When a client closes a stream (of events or of a log), the relay closes it at the engine too.
      answer.once("close", () => outgoing.destroy());
    });
    if (trap?.moment === "held") {
      answer.writeHead(reply.statusCode ?? 500, reply.headers);
      let last: Buffer | undefined;
      for await (const chunk of reply) {
        if (last) answer.write(last);
        last = chunk;
      }
      trap.act();
      await once(answer, "close");
      return;
    }
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

  #trapFor(method: string, path: string): RelayTrap | undefined {
    const isChange =
      method !== "GET" &&
      method !== "HEAD" &&
      !path.includes("/exec") &&
      // Berth removes images of earlier versions at any time, or not at all, so these removals are not counted.
      !(method === "DELETE" && path.startsWith("/images/"));
    if (!isChange) return undefined;
    this.#seen.push(`${method} ${path}`);
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
