import type { Server as HttpServer } from "node:http";
import { type BlockList, createServer, isIPv6, type Server, type Socket } from "node:net";
import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import {
  assertListenerAddress,
  type HostNetworks,
  isLoopback,
  localNetworks,
  parseClientSubnets,
} from "./container-listener-address.ts";

/** An address, beside the endpoint's own, that only clients of some networks are let in by. */
export interface ContainerListener {
  readonly address: string;
  readonly port: number;
  /** What the Host header has to name. */
  readonly host: string;
  /** Such as 172.18.0.0/16; everybody else's connection is closed unread. */
  readonly subnets: readonly string[];
}

/** By what name a connection has to call this machine. */
export interface ListenerHost {
  readonly host: string;
  /** It came in at the endpoint's own address, and may use the names of loopback too. */
  readonly isOwn: boolean;
}

/** Of each door: half of what the endpoint itself takes. */
const CONNECTIONS_MAX = 1_024;
/** A container that vanishes with its network says no word; the kernel asks after this silence. */
const KEEP_ALIVE_MS = 30_000;

/**
 * Lets containers of this machine reach the endpoint, which itself listens on loopback only. What comes
 * in by a door is handed to the same HTTP server. A door on the endpoint's own address and port opens
 * nothing: there the name is only one more that is taken, for engines in a virtual machine, whose containers
 * come in by loopback.
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

  /** Connections go to this server. */
  attach(http: HttpServer): void {
    this.#http = http;
  }

  /** Undefined for a connection of the endpoint's own that has to use a name of loopback. */
  getExpectedHost(socket: Socket): ListenerHost | undefined {
    const known = this.#expectedHosts.get(socket);
    if (known || !this.#own) return known;
    const { name, address, clients } = this.#own;
    const isMeant = socket.localAddress === address && isClient(clients, socket);
    return isMeant ? name : undefined;
  }

  /**
   * Opens these in place of those that were open. One that stays open keeps its connections. Throws
   * AssistantError `invalid_request` where one cannot be opened: with an address or a network that is
   * refused, nothing has changed; where a port is taken, the others are open.
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

  /** Nobody comes in any more; who is in is the HTTP server's to end. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true;
    await this.#lastUpdate;
    for (const door of this.#open.values()) door.server.close();
    this.#open.clear();
  }

  async #replaceListeners(listeners: readonly ContainerListener[]): Promise<void> {
    const wanted = new Map<
      string,
      { readonly door: ContainerListener; readonly clients: BlockList }
    >();
    for (const door of listeners) {
      await assertListenerAddress(door.address, this.#networks);
      wanted.set(`${door.address}:${door.port}`, {
        door,
        clients: parseClientSubnets(door.subnets),
      });
    }
    const ownKey = this.#ownKey();
    this.#own = null;
    for (const [key, open] of this.#open) {
      if (wanted.has(key) && key !== ownKey) continue;
      this.#open.delete(key);
      open.close();
      this.#logger.info({ address: key }, "a container listener is closed");
    }
    const failures: AssistantError[] = [];
    for (const [key, { door, clients }] of wanted) {
      const name = { host: door.host.toLowerCase(), isOwn: key === ownKey };
      const there = this.#open.get(key);
      if (name.isOwn) this.#own = { name, address: door.address, clients };
      else if (there) there.updateClients(name, clients);
      else failures.push(...(await this.#listen(door, name, clients)));
    }
    if (failures[0]) throw failures[0];
  }

  /** Where the endpoint itself listens, as a door's key would be. */
  #ownKey(): string | undefined {
    const bound = this.#http?.address();
    return typeof bound === "object" && bound !== null && isLoopback(bound.address)
      ? `${bound.address}:${bound.port}`
      : undefined;
  }

  /** Returns why it could not; empty where it listens. */
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
          "there is no endpoint that a container listener could lead to",
        ),
      ];
    const opened = new BoundListener(name, clients, (socket, doorName) => {
      this.#expectedHosts.set(socket, doorName);
      http.emit("connection", socket);
    });
    opened.onRefused = (remote) =>
      this.#logger.debug({ door: listener.address, remote }, "a connection was not let in");
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

/** A listening socket, and who is let in by it. */
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
    // Not half-open: whether a program in a container still reads cannot be seen from here, as it is on
    // loopback. Who has closed the sending half is taken to have gone, as most servers do.
    this.server = createServer({ allowHalfOpen: false, noDelay: true }, (socket) => {
      if (!isClient(this.#clients, socket)) {
        this.onRefused(socket.remoteAddress);
        // Without an answer, and as a reset: after a plain end some clients connect again and again.
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
        // A failed accept, for want of descriptors, ends one connection; the door stays.
        this.server.off("error", reject).on("error", () => {});
        resolve();
      });
    });
  }

  /** From now on these are let in; who is in and is not one of them has to go. */
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
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const why =
    code === "EADDRINUSE"
      ? `port ${port} of ${address} is taken by another program`
      : code === "EADDRNOTAVAIL"
        ? `${address} is not an address of this machine now`
        : `port ${port} of ${address} cannot be listened on (${code})`;
  return new AssistantError("invalid_request", `the container listener cannot be opened: ${why}`, {
    cause,
  });
}
