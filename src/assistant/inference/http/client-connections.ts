import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../../base/clock.ts";
import { getEndpoints, readPeerStates, type SocketEndpoints } from "./peer-state.ts";

/** How soon a client that had only closed its sending half is found to have gone altogether. */
const RECHECK_MS = 50;

/** Something under way on a connection. */
export interface ActiveRequest {
  /** The connection is gone, and with it whoever waits for this. */
  gone(): void;
}

/**
 * The connections of a server and what is under way on each. A client that goes away ends what is under
 * way at once; one that has only closed its sending half is answered. Closing waits for connections
 * with something under way and for no others: Node's own closeIdleConnections leaves those open that
 * have not sent a request yet, and those that become idle after it was called.
 */
export class ClientConnections {
  readonly #clock: Clock;
  readonly #activeRequests = new Map<Socket, Set<ActiveRequest>>();
  /** Have sent their last byte while something was under way. */
  readonly #halfClosed = new Map<Socket, SocketEndpoints | undefined>();
  /** Of them, those of which neither end was to be seen at the last look. */
  readonly #missing = new Set<Socket>();
  #cancelRecheck: (() => void) | undefined;
  #isChecking = false;
  #shouldRecheck = false;
  #isClosing = false;

  constructor(server: Server, clock: Clock) {
    this.#clock = clock;
    // Node would otherwise end a connection with its answer as soon as the client has sent all. The
    // property is not in the types of Node.
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
        for (const item of underway) item.gone();
      });
    });
  }

  get open(): number {
    return this.#activeRequests.size;
  }

  begin(socket: Socket, item: ActiveRequest): void {
    const underway = this.#activeRequests.get(socket);
    if (underway) underway.add(item);
    // It has gone between the request's arrival and this.
    else if (socket.destroyed) item.gone();
  }

  /** It is over; safe to call twice. */
  end(socket: Socket, item: ActiveRequest): void {
    const underway = this.#activeRequests.get(socket);
    underway?.delete(item);
    if (this.#isClosing && underway?.size === 0) socket.destroySoon();
  }

  /** Ends each connection as soon as nothing is under way on it. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, underway] of this.#activeRequests) {
      if (underway.size === 0) socket.destroy();
    }
  }

  /** Ends those that are still there, whatever is under way. */
  destroyAll(): void {
    this.#cancelRecheck?.();
    for (const socket of this.#activeRequests.keys()) socket.destroy();
  }

  /** One look at a time at all of them: the table is read once, however many clients left together. */
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
