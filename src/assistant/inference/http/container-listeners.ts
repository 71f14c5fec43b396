import type { Server as HttpServer } from "node:http";
import { type BlockList, createServer, isIPv6, type Server, type Socket } from "node:net";
import { getErrorCode } from "../../../base/errors.ts";
import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import {
  assertListenerAddress,
  type HostNetworks,
  isLoopback,
  localNetworks,
  parseClientSubnets,
} from "./container-listener-address.ts";

/** An additional address of the endpoint. It accepts only clients from the given networks. */
export interface ContainerListener {
  readonly address: string;
  readonly port: number;
  /** The host name that requests must have in their Host header. */
  readonly host: string;
  /**
   * The networks of the clients, for example 172.18.0.0/16. Connections from other networks are closed before any data
   * is read.
   */
  readonly subnets: readonly string[];
}

/** The host name that the requests of a connection must use. */
export interface ListenerHost {
  readonly host: string;
  /**
   * True if the client connected to the endpoint's own address, not to a container listener. Such a client may also use
   * `localhost` and the other loopback names as the host.
   */
  readonly isOwn: boolean;
}

/** The largest number of connections of one listener: half of the endpoint's own limit. */
const CONNECTIONS_MAX = 1_024;
/**
 * The time without data after which keep-alive probes start. When a container disappears together with its network, no
 * packet reports it.
 */
const KEEP_ALIVE_MS = 30_000;

/**
 * Lets containers of this machine reach the endpoint, which itself listens on loopback only. Connections of a container
 * listener are passed to the same HTTP server. A listener with the endpoint's own address and port opens no socket: it
 * only adds an allowed host name, for container engines in a virtual machine, because their containers connect through
 * loopback.
 */
export class ContainerListeners implements AsyncDisposable {
  readonly #logger: Logger;
  readonly #networks: HostNetworks;
  readonly #expectedHosts = new WeakMap<Socket, ListenerHost>();
  readonly #open = new Map<string, BoundListener>();
  #http: HttpServer | undefined;
  #own: {
    readonly name: ListenerHost;
    readonly address: string;
    readonly clients: BlockList;
  } | null = null;
  #lastUpdate: Promise<void> = Promise.resolve();
  #isEnded = false;

  constructor(options: { readonly logger: Logger; readonly machine?: HostNetworks }) {
    this.#logger = options.logger;
    this.#networks = options.machine ?? localNetworks;
  }

  /** Sets the HTTP server that receives the connections. */
  attach(http: HttpServer): void {
    this.#http = http;
  }

  /**
   * Returns the host name that requests over this connection must use. Returns undefined for a connection to the
   * endpoint's own address, where requests must use a loopback name such as localhost.
   */
  getExpectedHost(socket: Socket): ListenerHost | undefined {
    const known = this.#expectedHosts.get(socket);
    if (known || !this.#own) return known;
    const { name, address, clients } = this.#own;
    const isMeant = socket.localAddress === address && isClient(clients, socket);
    return isMeant ? name : undefined;
  }

  /**
   * Replaces all open listeners. A listener that is in both the old and the new list keeps its connections. Rejects
   * with AssistantError `invalid_request` if a listener cannot be opened. If an address or a network is refused,
   * nothing has changed. If a port is in use, all other listeners are open.
   */
  async replace(listeners: readonly ContainerListener[]): Promise<void> {
    const before = this.#lastUpdate;
    const turn = (async () => {
      await before;
      await this.#replaceListeners(listeners);
    })();
    this.#lastUpdate = turn.catch(() => {});
    return turn;
  }

  /** Stops accepting connections. The HTTP server closes the existing connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true;
    await this.#lastUpdate;
    for (const listener of this.#open.values()) listener.server.close();
    this.#open.clear();
  }

  async #replaceListeners(listeners: readonly ContainerListener[]): Promise<void> {
    const requested = new Map<
      string,
      { readonly listener: ContainerListener; readonly clients: BlockList }
    >();
    for (const listener of listeners) {
      await assertListenerAddress(listener.address, this.#networks);
      requested.set(`${listener.address}:${listener.port}`, {
        listener,
        clients: parseClientSubnets(listener.subnets),
      });
    }
    const ownKey = this.#ownKey();
    this.#own = null;
    for (const [key, open] of this.#open) {
      if (requested.has(key) && key !== ownKey) continue;
      this.#open.delete(key);
      open.close();
      this.#logger.info({ address: key }, "a container listener is closed");
    }
    const failures: AssistantError[] = [];
    for (const [key, { listener, clients }] of requested) {
      const name = { host: listener.host.toLowerCase(), isOwn: key === ownKey };
      const there = this.#open.get(key);
      if (name.isOwn) this.#own = { name, address: listener.address, clients };
      else if (there) there.updateClients(name, clients);
      else failures.push(...(await this.#listen(listener, name, clients)));
    }
    if (failures[0]) throw failures[0];
  }

  /**
   * Returns the address and the port of the HTTP endpoint itself as `address:port`, the form of the keys of `#open`;
   * undefined if the endpoint does not listen on loopback.
   */
  #ownKey(): string | undefined {
    const bound = this.#http?.address();
    return typeof bound === "object" && bound !== null && isLoopback(bound.address)
      ? `${bound.address}:${bound.port}`
      : undefined;
  }

  /** Opens a listener. Resolves to the errors of the attempt; the list is empty if the listener is open. */
  async #listen(
    listener: ContainerListener,
    name: ListenerHost,
    clients: BlockList,
  ): Promise<AssistantError[]> {
    const http = this.#http;
    if (!http || this.#isEnded)
      return [
        new AssistantError(
          "shutting_down",
          "the endpoint is not listening yet, so no container listener can lead to it",
        ),
      ];
    const opened = new BoundListener(name, clients, (socket, host) => {
      this.#expectedHosts.set(socket, host);
      http.emit("connection", socket);
    });
    opened.onRefused = (remote) =>
      this.#logger.debug({ listener: listener.address, remote }, "a connection was refused");
    try {
      await opened.listen(listener.address, listener.port);
    } catch (error) {
      return [cannotListen(listener, error)];
    }
    const key = `${listener.address}:${listener.port}`;
    this.#open.set(key, opened);
    this.#logger.info({ address: key, subnets: listener.subnets }, "a container listener is open");
    return [];
  }
}

/** A listening socket that accepts connections only from the given client networks. */
class BoundListener {
  readonly server: Server;
  readonly #connections = new Set<Socket>();
  #name: ListenerHost;
  #clients: BlockList;
  onRefused: (remote: string | undefined) => void = () => {};

  constructor(
    name: ListenerHost,
    clients: BlockList,
    hand: (socket: Socket, name: ListenerHost) => void,
  ) {
    this.#name = name;
    this.#clients = clients;
    this.server = createServer({ allowHalfOpen: false, noDelay: true }, (socket) => {
      if (!isClient(this.#clients, socket)) {
        this.onRefused(socket.remoteAddress);
        // The connection is closed with a reset and without an answer, because some clients keep reconnecting after an
        // orderly close.
        socket.on("error", () => {}).resetAndDestroy();
        return;
      }
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      this.#connections.add(socket);
      socket.once("close", () => this.#connections.delete(socket));
      hand(socket, this.#name);
    });
    this.server.maxConnections = CONNECTIONS_MAX;
  }

  listen(host: string, port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.server.once("error", reject).listen({ host, port }, () => {
        // If accept fails for lack of descriptors, one connection is lost and the listener stays open.
        this.server.off("error", reject).on("error", () => {});
        resolve();
      });
    });
  }

  /** Replaces the client filter and closes connections of clients that are no longer accepted. */
  updateClients(host: ListenerHost, clients: BlockList): void {
    this.#name = host;
    this.#clients = clients;
    for (const socket of this.#connections) if (!isClient(clients, socket)) socket.destroy();
  }

  close(): void {
    this.server.close();
    for (const socket of this.#connections) socket.destroy();
  }
}

function isClient(clients: BlockList, { remoteAddress }: Socket): boolean {
  if (remoteAddress === undefined) return false;
  return clients.check(remoteAddress, isIPv6(remoteAddress) ? "ipv6" : "ipv4");
}

function cannotListen({ address, port }: ContainerListener, cause: unknown): AssistantError {
  const code = getErrorCode(cause) ?? "";
  const why =
    code === "EADDRINUSE"
      ? `port ${port} of ${address} is taken by another program`
      : code === "EADDRNOTAVAIL"
        ? `${address} is not an address of this machine now`
        : `port ${port} of ${address} cannot be opened (${code})`;
  return new AssistantError("invalid_request", `the container listener cannot be opened: ${why}`, {
    cause,
  });
}
