import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../../base/clock.ts";
import { getEndpoints, readPeerStates, type SocketEndpoints } from "./peer-state.ts";

/** The interval for checking if a client that had closed only its sending half has exited. */
const RECHECK_MS = 50;

/** A request in progress on a connection. */
export interface ActiveRequest {
  /** Called when the connection is lost, so that the client can no longer receive the answer. */
  onDisconnect(): void;
}

/**
 * Tracks the connections of a server and the requests in progress on each. When a client disconnects, its requests end
 * immediately; a client that has closed only its sending half still gets its answer. Closing the server waits only for
 * connections with requests in progress. Node's closeIdleConnections would leave two kinds of connections open: those
 * that have not sent a request yet, and those that become idle after the call.
 */
export class ClientConnections {
  readonly #clock: Clock;
  readonly #activeRequests = new Map<Socket, Set<ActiveRequest>>();
  /** Half-closed connections that still have requests in progress. */
  readonly #halfClosed = new Map<Socket, SocketEndpoints | undefined>();
  /** Half-closed connections that were missing in the kernel's table at the last check. */
  readonly #missing = new Set<Socket>();
  #cancelRecheck: (() => void) | undefined;
  #isChecking = false;
  #shouldRecheck = false;
  #isClosing = false;

  constructor(server: Server, clock: Clock) {
    this.#clock = clock;
    // Without this setting, Node closes a connection after the answer if the client has closed its sending half. Node's
    // types lack this property.
    Object.assign(server, { httpAllowHalfOpen: true });
    server.on("connection", (socket: Socket) => {
      if (this.#isClosing) {
        socket.destroy();
        return;
      }
      const underway = new Set<ActiveRequest>();
      this.#activeRequests.set(socket, underway);
      const ends = getEndpoints(socket);
      socket.once("end", () => {
        this.#halfClosed.set(socket, ends);
        this.#checkPeers();
      });
      socket.once("close", () => {
        this.#activeRequests.delete(socket);
        this.#halfClosed.delete(socket);
        this.#missing.delete(socket);
        for (const item of underway) item.onDisconnect();
      });
    });
  }

  get open(): number {
    return this.#activeRequests.size;
  }

  begin(socket: Socket, item: ActiveRequest): void {
    const underway = this.#activeRequests.get(socket);
    if (underway) underway.add(item);
    // The connection was closed between the arrival of the request and this call.
    else if (socket.destroyed) item.onDisconnect();
  }

  /** Marks a request as finished. May be called more than once. */
  end(socket: Socket, item: ActiveRequest): void {
    const underway = this.#activeRequests.get(socket);
    underway?.delete(item);
    if (this.#isClosing && underway?.size === 0) socket.destroySoon();
  }

  /** Closes each connection as soon as it has no requests in progress. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, underway] of this.#activeRequests) {
      if (underway.size === 0) socket.destroy();
    }
  }

  /** Closes the remaining connections, even if they have requests in progress. */
  destroyAll(): void {
    this.#cancelRecheck?.();
    for (const socket of this.#activeRequests.keys()) socket.destroy();
  }

  /**
   * Checks all half-closed connections at once, so that the kernel's table is read only once, however many clients
   * disconnected.
   */
  #checkPeers(): void {
    this.#cancelRecheck?.();
    this.#cancelRecheck = undefined;
    this.#shouldRecheck = this.#isChecking;
    const sockets = this.#busyHalfClosed();
    if (this.#isChecking || sockets.length === 0) return;
    this.#isChecking = true;
    void this.#checkSockets(sockets);
  }

  async #checkSockets(sockets: readonly Socket[]): Promise<void> {
    const states = await readPeerStates(sockets.map((socket) => this.#halfClosed.get(socket)));
    this.#isChecking = false;
    for (const [index, socket] of sockets.entries()) {
      const state = states[index];
      const isMissing = state === "missing";
      if (state === "gone" || (isMissing && this.#missing.has(socket))) socket.destroy();
      else if (isMissing) this.#missing.add(socket);
      else this.#missing.delete(socket);
    }
    if (this.#shouldRecheck) this.#checkPeers();
    else if (this.#busyHalfClosed().length > 0) {
      this.#cancelRecheck = this.#clock.setTimer(RECHECK_MS, () => this.#checkPeers());
    }
  }

  #busyHalfClosed(): readonly Socket[] {
    return [...this.#halfClosed.keys()].filter(
      (socket) => !socket.destroyed && (this.#activeRequests.get(socket)?.size ?? 0) > 0,
    );
  }
}
