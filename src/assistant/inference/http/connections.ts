import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../../base/clock.ts";
import { type Ends, endsOf, peerStates } from "./peer-state.ts";

/** How soon a client that had only closed its sending half is found to have gone altogether. */
const NEXT_LOOK_MS = 50;

/** Something under way on a connection. */
export interface Underway {
  /** The connection is gone, and with it whoever waits for this. */
  gone(): void;
}

/**
 * The connections of a server and what is under way on each. A client that goes away ends what is under
 * way at once; one that has only closed its sending half is answered. Closing waits for connections
 * with something under way and for no others: Node's own closeIdleConnections leaves those open that
 * have not sent a request yet, and those that become idle after it was called.
 */
export class Connections {
  readonly #clock: Clock;
  readonly #underway = new Map<Socket, Set<Underway>>();
  /** Have sent their last byte while something was under way. */
  readonly #halfClosed = new Map<Socket, Ends | undefined>();
  /** Of them, those of which neither end was to be seen at the last look. */
  readonly #missing = new Set<Socket>();
  #stopLooking: (() => void) | undefined;
  #isLooking = false;
  #looksAgain = false;
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
      const underway = new Set<Underway>();
      this.#underway.set(socket, underway);
      const ends = endsOf(socket);
      socket.once("end", () => {
        this.#halfClosed.set(socket, ends);
        this.#look();
      });
      socket.once("close", () => {
        this.#underway.delete(socket);
        this.#halfClosed.delete(socket);
        this.#missing.delete(socket);
        for (const item of underway) item.gone();
      });
    });
  }

  get open(): number {
    return this.#underway.size;
  }

  begin(socket: Socket, item: Underway): void {
    const underway = this.#underway.get(socket);
    if (underway) underway.add(item);
    // It has gone between the request's arrival and this.
    else if (socket.destroyed) item.gone();
  }

  /** It is over; safe to call twice. */
  end(socket: Socket, item: Underway): void {
    const underway = this.#underway.get(socket);
    underway?.delete(item);
    if (this.#isClosing && underway?.size === 0) socket.destroySoon();
  }

  /** Ends each connection as soon as nothing is under way on it. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, underway] of this.#underway) {
      if (underway.size === 0) socket.destroy();
    }
  }

  /** Ends those that are still there, whatever is under way. */
  destroyAll(): void {
    this.#stopLooking?.();
    for (const socket of this.#underway.keys()) socket.destroy();
  }

  /** One look at a time at all of them: the table is read once, however many clients left together. */
  #look(): void {
    this.#stopLooking?.();
    this.#stopLooking = undefined;
    this.#looksAgain = this.#isLooking;
    const sockets = this.#busyHalfClosed();
    if (this.#isLooking || sockets.length === 0) return;
    this.#isLooking = true;
    void this.#lookAt(sockets);
  }

  async #lookAt(sockets: readonly Socket[]): Promise<void> {
    const states = await peerStates(sockets.map((socket) => this.#halfClosed.get(socket)));
    this.#isLooking = false;
    for (const [index, socket] of sockets.entries()) {
      const state = states[index];
      const isMissing = state === "missing";
      if (state === "gone" || (isMissing && this.#missing.has(socket))) socket.destroy();
      else if (isMissing) this.#missing.add(socket);
      else this.#missing.delete(socket);
    }
    if (this.#looksAgain) this.#look();
    else if (this.#busyHalfClosed().length > 0) {
      this.#stopLooking = this.#clock.setTimer(NEXT_LOOK_MS, () => this.#look());
    }
  }

  #busyHalfClosed(): readonly Socket[] {
    return [...this.#halfClosed.keys()].filter(
      (socket) => !socket.destroyed && (this.#underway.get(socket)?.size ?? 0) > 0,
    );
  }
}
